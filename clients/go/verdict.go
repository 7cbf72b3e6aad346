package monoceros

import (
	"errors"
	"io"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// reasonTrailer is the trailer with the machine-readable reason of a status.
const reasonTrailer = "x-si-reason"

// An Error says why a call or stream ended.
type Error struct {
	// Status is what gRPC says.
	Status *status.Status
	// Reason is a word for programs, such as SESSION_STALE; empty if the scheduler did not say one.
	Reason string
}

func (e *Error) Error() string {
	if e.Reason == "" {
		return e.Status.String()
	}
	return e.Status.String() + " [" + e.Reason + "]"
}

// GRPCStatus makes status.Code and the like work.
func (e *Error) GRPCStatus() *status.Status { return e.Status }

func endOf(err error, trailer metadata.MD) error {
	if errors.Is(err, io.EOF) {
		err = nil
	}
	var reason string
	if reasons := trailer.Get(reasonTrailer); len(reasons) > 0 {
		reason = reasons[0]
	}
	return &Error{status.Convert(err), reason}
}

// errVoid ends a session that the client itself finds to be void.
var errVoid = errors.New("the scheduler and the client do not know of the same requests")

// verdict is what to do when a stream or the registration has ended.
type verdict int

const (
	// again: open the streams again.
	again verdict = iota
	// anew: register, and tell everything.
	anew
	// stop: it will not get better by itself, or another instance speaks for the RM.
	stop
)

func judge(err error) verdict {
	if errors.Is(err, errVoid) {
		return anew
	}
	var end *Error
	if !errors.As(err, &end) {
		return stop
	}
	switch end.Reason {
	case "SESSION_STALE", "RM_NOT_REGISTERED", "RESYNC_REQUIRED", "MESSAGE_UNREADABLE", "INTERNAL_ERROR":
		return anew
	case "SESSION_SUPERSEDED", "STREAM_DISPLACED", "DEREGISTERED", "LIMIT_ITEMS", "LIMIT_BYTES", "LIMIT_ID":
		return stop
	}
	switch end.Status.Code() {
	case codes.InvalidArgument, codes.Unauthenticated, codes.PermissionDenied,
		codes.FailedPrecondition, codes.Unimplemented:
		return stop
	}
	return again
}
