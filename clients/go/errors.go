package monoceros

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	si "monoceros.io/clients/go/si/v1"
)

var (
	// ErrRunning is returned by a second call of Run. A client runs once; New makes another one.
	ErrRunning = errors.New("monoceros: Run was called before")
	// ErrNotRunning is returned by calls that need Run to be called first.
	ErrNotRunning = errors.New("monoceros: Run was not called yet")
	// ErrEnded is returned by calls after Run has returned, together with the error of Run if there
	// was one, and by calls after Close.
	ErrEnded = errors.New("monoceros: the client has ended")
	// ErrNil means that an item is a nil pointer.
	ErrNil = errors.New("it is nil")
	// ErrTooLarge means that an item is larger than a message may be (Config.MaxMessage).
	ErrTooLarge = errors.New("it is too large")
	// ErrUnwritable means that an item cannot be written, because a text in it is not UTF-8.
	ErrUnwritable = errors.New("it cannot be written")
	// ErrState means that Config.State has failed, or returned a state that cannot be sent.
	ErrState = errors.New("monoceros: Config.State")
)

const (
	// reasonTrailer is the trailer with the machine-readable reason of a status.
	reasonTrailer = "x-si-reason"
	// ownerTrailer is the trailer with the address of the member that serves the RM.
	ownerTrailer = "x-si-owner"
)

// Error is the end of a call or stream. errors.Is finds the error of a context that ended the call;
// errors.As and status.FromError find the status.
type Error struct {
	// Op is the call or stream, such as `register` or `node stream`.
	Op string
	// Status is the gRPC status.
	Status *status.Status
	// Reason is machine-readable, such as SESSION_STALE; empty if the scheduler gave none.
	Reason string
	// Owner is the address of the member of the cluster that serves the RM, if the end names it.
	Owner string
	// Err is the gRPC error, joined with the error of the context if that had ended; nil if a stream ended
	// with OK.
	Err error
}

func (e *Error) Error() string {
	text := "monoceros: " + e.Op + ": " + e.Status.String()
	if e.Reason != "" {
		text += " [" + e.Reason + "]"
	}
	return text
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// GRPCStatus returns Status, so that status.Code and the like work.
func (e *Error) GRPCStatus() *status.Status { return e.Status }

// endOf makes the Error of a call or stream that has returned err.
func endOf(ctx context.Context, op string, err error, trailer metadata.MD) *Error {
	if errors.Is(err, io.EOF) {
		err = nil
	}
	end := &Error{Op: op, Status: status.Convert(err), Err: err}
	if cause := context.Cause(ctx); err != nil && cause != nil {
		end.Err = fmt.Errorf("%w: %w", cause, err)
	}
	end.Reason, end.Owner = first(trailer, reasonTrailer), first(trailer, ownerTrailer)
	return end
}

// ItemError is an item that was not sent. The other items of the call, or of the state, were sent.
type ItemError struct {
	// Item names the item, such as "allocation `a` of application `x`".
	Item string
	// Err is ErrTooLarge with the sizes, or ErrUnwritable with the cause.
	Err error
}

func (e *ItemError) Error() string { return "monoceros: " + e.Item + ": " + e.Err.Error() }

// Unwrap returns Err.
func (e *ItemError) Unwrap() error { return e.Err }

// nameOf names an item in an error.
func nameOf(item proto.Message) string {
	switch one := item.(type) {
	case *si.NodeInfo:
		return "node `" + short(one.GetNodeID()) + "`"
	case *si.AddApplicationRequest:
		return "application `" + short(one.GetApplicationID()) + "`"
	case *si.RemoveApplicationRequest:
		return "removal of application `" + short(one.GetApplicationID()) + "`"
	case *si.Allocation:
		return "allocation `" + short(one.GetAllocationKey()) + "` of application `" + short(one.GetApplicationID()) + "`"
	case *si.AllocationRelease:
		return "release of `" + short(one.GetAllocationKey()) + "` of application `" + short(one.GetApplicationID()) + "`"
	}
	return "an item"
}

// short cuts a name, which may be the part of the item that is too large.
func short(name string) string {
	const most = 128
	if len(name) > most {
		return validText(name[:most]) + "…"
	}
	return validText(name)
}

// validText replaces invalid UTF-8 in a text, because a string that is not UTF-8 would end the stream.
func validText(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }

// errVoid ends a session that the client itself finds to be inconsistent.
var errVoid = errors.New("monoceros: the scheduler and the client do not know of the same requests")

// errNumbers ends a client whose scheduler is too old.
var errNumbers = errors.New("monoceros: the scheduler does not number requests; it is older than this client")

// verdict is how to continue when a stream or the registration has ended.
type verdict int

const (
	// reopen: open the streams of the session again.
	reopen verdict = iota
	// registerAgain: register again and report the full state.
	registerAgain
	// stop: a retry cannot help, or another instance has taken over the RM.
	stop
)

// judge decides how to continue, by the reason first and else by the code. If other members of a cluster can
// serve the RM (hasOthers), the client registers at one of them when the connection is lost.
func judge(err error, hasOthers bool) verdict {
	if errors.Is(err, errVoid) || errors.Is(err, ErrSilent) {
		return registerAgain
	}
	var end *Error
	if !errors.As(err, &end) {
		return stop
	}
	if end.Status.Code() == codes.OutOfRange {
		// A message is larger than the scheduler accepts (grpc.max_recv_message_bytes), and would be again.
		return stop
	}
	if isPassing(err) {
		return registerAgain
	}
	switch end.Reason {
	case "SESSION_STALE", "RM_NOT_REGISTERED", "RESYNC_REQUIRED", "MESSAGE_UNREADABLE", "INTERNAL_ERROR",
		"NOT_OWNER", "SESSION_MOVED":
		return registerAgain
	case "SESSION_SUPERSEDED", "STREAM_DISPLACED", reasonDeregistered, "LIMIT_ITEMS", "LIMIT_BYTES", "LIMIT_ID":
		return stop
	}
	switch end.Status.Code() {
	case codes.InvalidArgument, codes.Unauthenticated, codes.PermissionDenied,
		codes.FailedPrecondition, codes.Unimplemented:
		return stop
	}
	if hasOthers && (end.Reason == "" || end.Reason == "SHUTTING_DOWN") {
		return registerAgain
	}
	return reopen
}

// keepsOwner reports whether the session has ended, and its owner in a cluster goes on.
func keepsOwner(err error) bool {
	var end *Error
	return errors.As(err, &end) && (end.Reason == "RESYNC_REQUIRED" || end.Reason == "MESSAGE_UNREADABLE")
}

// isPassing reports whether a member of a cluster has answered that it may serve the RM soon, so that long
// pauses make no sense.
func isPassing(err error) bool {
	var end *Error
	if !errors.As(err, &end) {
		return false
	}
	switch end.Reason {
	case "OWNER_UNREACHABLE", "ARBITER_UNAVAILABLE", "CLAIM_CONTENDED", "MEMBER_FENCED":
		return true
	}
	return false
}

// reasonDeregistered is the reason of streams whose session was ended by a deregistration.
const reasonDeregistered = "DEREGISTERED"

func isDeregistered(err error) bool {
	var end *Error
	return errors.As(err, &end) && end.Reason == reasonDeregistered
}
