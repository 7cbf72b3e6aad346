package monoceros

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	si "monoceros.io/clients/go/si/v1"
	mono "monoceros.io/clients/go/v1"
)

// members is a cluster of fake members.
type members struct {
	t   *testing.T
	all []*member
	// client is the client of the RM, with its clock and handler; broken has the reasons of Config.Broken.
	client  *Client
	clock   *fakeClock
	handler *listener
	broken  chan error
	// tune changes the client before it runs.
	tune func(*Client)

	mu    sync.Mutex
	epoch int
	// calls has the registrations that arrived, and their order over all members.
	calls []call
}

// member is one of them. answer decides about a registration before the default, which accepts it.
type member struct {
	fake
	name    string
	address string
	stop    func()
	asker   asker
	admin   departures
	answer  func(context.Context, metadata.MD) error
	options []grpc.ServerOption
}

type call struct {
	member string
	shown  metadata.MD
}

// newMembers starts so many members, m1 and so on.
func newMembers(t *testing.T, n int) *members {
	m := &members{t: t, clock: newFakeClock(), handler: &listener{}, broken: make(chan error, 100)}
	for at := 0; at < n; at++ {
		one := &member{name: fmt.Sprint("m", at+1), asker: asker{streams: make(chan *conversation, 8)}}
		one.beats, one.admin = make(chan struct{}), newDepartures()
		m.all = append(m.all, one)
		m.start(one, "127.0.0.1:0")
	}
	return m
}

func (m *members) start(one *member, address string) {
	m.t.Helper()
	one.breaks = func() bool { return false }
	one.admit = func(ctx context.Context, shown metadata.MD) (metadata.MD, error) { return m.admit(ctx, one, shown) }
	one.address, one.stop = one.startAt(m.t, address, func(server *grpc.Server) {
		mono.RegisterCallbackServiceServer(server, &one.asker)
		mono.RegisterAdminServiceServer(server, &one.admin)
	}, one.options...)
}

// admit is a registration at a member.
func (m *members) admit(ctx context.Context, one *member, shown metadata.MD) (metadata.MD, error) {
	m.mu.Lock()
	m.calls = append(m.calls, call{one.name, shown})
	answer := one.answer
	m.mu.Unlock()
	if answer != nil {
		if err := answer(ctx, shown); err != nil {
			return nil, err
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.epoch++
	addresses := []string{one.address}
	for _, other := range m.all {
		if other != one {
			addresses = append(addresses, other.address)
		}
	}
	return metadata.Pairs("x-si-session", strconv.Itoa(m.epoch), "x-si-scheduler", "run of "+one.name,
		"x-si-members", strings.Join(addresses, ",")), nil
}

// answers sets the answer of a member to registrations.
func (m *members) answers(one *member, answer func(context.Context, metadata.MD) error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	one.answer = answer
}

// refusal is an answer with a reason, which may name an owner.
func refusal(code codes.Code, reason string, owner *member) func(context.Context, metadata.MD) error {
	return func(ctx context.Context, _ metadata.MD) error {
		grpc.SetTrailer(ctx, ending(reason, owner))
		return status.Error(code, "text")
	}
}

func ending(reason string, owner *member) metadata.MD {
	trailer := metadata.Pairs(reasonTrailer, reason)
	if owner != nil {
		trailer.Set(ownerTrailer, owner.address)
	}
	return trailer
}

// run runs a client whose State has one node and the task `a`. Members are tried in the order of their
// names.
func (m *members) run(targets []string, change func(*Config)) {
	m.t.Helper()
	config := Config{
		Target: targets[0], OtherAddresses: targets[1:], Pause: firstPause, MaxPause: time.Hour, Handler: m.handler, Broken: func(err error) { m.broken <- err },
		State: func(context.Context) (*State, error) {
			return &State{Nodes: []*si.NodeInfo{{NodeID: "n"}}, Allocations: []*si.Allocation{ask("a")}}, nil
		},
	}
	change(&config)
	m.client = runningWith(m.t, config, func(c *Client) {
		c.clock, c.watch.clock, c.shuffle = m.clock, m.clock, func([]string) {}
		if m.tune != nil {
			m.tune(c)
		}
	})
}

func (m *members) targets() []string {
	var all []string
	for _, one := range m.all {
		all = append(all, one.address)
	}
	return all
}

// serves waits until the client has a session at the member, and has reported all of its state.
func (m *members) serves(one *member) {
	m.t.Helper()
	eventually(m.t, one.name+" serves", func() bool {
		one.mu.Lock()
		defer one.mu.Unlock()
		return len(one.effects) == 3
	})
	one.mu.Lock()
	defer one.mu.Unlock()
	if seen := fmt.Sprint(one.effects); seen != "[node n node n allocation a]" {
		m.t.Errorf("%s: %s", one.name, seen)
	}
}

// settle lets the session become an old one.
func (m *members) settle() { m.clock.advance(brief) }

// kill ends a member with all of its connections.
func (m *members) kill(one *member) {
	one.stop()
	one.mu.Lock()
	defer one.mu.Unlock()
	one.effects = nil
}

// end ends the streams of a member.
func (m *members) end(one *member, verdict func(grpc.ServerStream) error) {
	one.mu.Lock()
	defer one.mu.Unlock()
	broken := one.broken
	one.verdict, one.effects, one.broken = verdict, nil, make(chan struct{})
	close(broken)
}

// called returns the members at which registrations have arrived.
func (m *members) called() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []string
	for _, one := range m.calls {
		all = append(all, one.member)
	}
	return strings.Join(all, " ")
}

// shown returns a metadata value of all registrations.
func (m *members) shown(key string) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := make([]string, len(m.calls))
	for at, one := range m.calls {
		all[at] = first(one.shown, key)
	}
	return all
}

func unchanged(*Config) {}

func TestAnotherMemberServesAtOnceWhenTheOwnerEnds(t *testing.T) {
	m := newMembers(t, 3)
	m.run(m.targets()[:1], unchanged)
	m.serves(m.all[0])
	m.settle()
	m.kill(m.all[0])
	// The clock stands still: there is no pause.
	m.serves(m.all[1])
	if seen := m.called(); seen != "m1 m2" {
		t.Errorf("registrations at %s", seen)
	}
	proofs := m.shown("x-si-proof")
	if len(proofs[0]) != 32 || proofs[0] != proofs[1] {
		t.Error("the proof is not the same text of 32 digits")
	}
	if seen := fmt.Sprint(m.shown("x-si-session"), m.shown("x-si-redirect"), m.shown("x-si-suspects")); seen != "[ 1] [yes yes] [ ]" {
		t.Error(seen)
	}
	eventually(t, "all streams are open", func() bool {
		m.all[1].mu.Lock()
		defer m.all[1].mu.Unlock()
		return len(m.all[1].streams) == 3
	})
	m.all[1].mu.Lock()
	defer m.all[1].mu.Unlock()
	for _, one := range m.all[1].streams {
		beat := map[string]string{"allocation": "yes"}[first(one, "kind")]
		if first(one, "x-si-redirect") != "yes" || first(one, "x-si-beat") != beat || one.Get("x-si-proof") != nil {
			t.Error(one)
		}
	}
}

func TestTheProofIsNotPrinted(t *testing.T) {
	client := made(t, valid())
	for _, verb := range []string{"%v", "%+v", "%#v", "%s"} {
		if strings.Contains(fmt.Sprintf(verb, client), client.proof()) {
			t.Errorf("%s prints the proof", verb)
		}
	}
	if other := made(t, valid()); other.proof() == client.proof() {
		t.Error("two clients have one proof")
	}
}

func TestAPlannedMoveLeadsToTheNewOwner(t *testing.T) {
	m := newMembers(t, 3)
	m.run(m.targets()[:1], unchanged)
	m.serves(m.all[0])
	m.settle()
	m.end(m.all[0], func(stream grpc.ServerStream) error {
		stream.SetTrailer(ending("SESSION_MOVED", m.all[2]))
		return status.Error(codes.Unavailable, "moved")
	})
	m.serves(m.all[2])
	if seen := m.called(); seen != "m1 m3" {
		t.Errorf("registrations at %s", seen)
	}
	var end *Error
	if err := received(t, "the reason", m.broken); !errors.As(err, &end) || end.Reason != "SESSION_MOVED" || end.Owner != m.all[2].address {
		t.Error(err)
	}
}

func TestTheOwnerIsKeptIfItAsksForAReport(t *testing.T) {
	m := newMembers(t, 3)
	m.run(m.targets()[:1], unchanged)
	m.serves(m.all[0])
	m.settle()
	m.end(m.all[0], func(stream grpc.ServerStream) error {
		return refused(stream, codes.FailedPrecondition, "RESYNC_REQUIRED")
	})
	m.serves(m.all[0])
	if seen := m.called(); seen != "m1 m1" {
		t.Errorf("registrations at %s", seen)
	}
}

func TestTheSessionGoesOnIfTheProgramWasSlow(t *testing.T) {
	m := newMembers(t, 2)
	m.run(m.targets(), unchanged)
	m.serves(m.all[0])
	m.settle()
	m.end(m.all[0], func(stream grpc.ServerStream) error {
		return refused(stream, codes.Unavailable, "HEARTBEAT_MISSED")
	})
	m.clock.pause(t, 0)
	eventually(t, "the streams are open again", func() bool {
		m.all[0].mu.Lock()
		defer m.all[0].mu.Unlock()
		return len(m.all[0].streams) == 6
	})
	if seen := m.called(); seen != "m1" {
		t.Errorf("registrations at %s", seen)
	}
}

func TestARedirectIsFollowed(t *testing.T) {
	m := newMembers(t, 3)
	m.answers(m.all[0], refusal(codes.Unavailable, "NOT_OWNER", m.all[2]))
	m.run(m.targets()[:1], unchanged)
	m.serves(m.all[2])
	if seen := m.called(); seen != "m1 m3" {
		t.Errorf("registrations at %s", seen)
	}
}

func TestMembersForwardIfTheClientCannotReachTheOwner(t *testing.T) {
	deaf, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer deaf.Close()
	m := newMembers(t, 1)
	owner := &member{address: deaf.Addr().String()}
	m.answers(m.all[0], func(ctx context.Context, shown metadata.MD) error {
		if first(shown, "x-si-redirect") == "" {
			return nil
		}
		return refusal(codes.Unavailable, "NOT_OWNER", owner)(ctx, shown)
	})
	m.run(m.targets(), unchanged)
	m.clock.expire(t, shortConnect)
	m.clock.pause(t, 0)
	m.serves(m.all[0])
	if seen := fmt.Sprint(m.shown("x-si-redirect")); seen != "[yes ]" {
		t.Error(seen)
	}
}

func TestRedirectsInACircleEndInAPause(t *testing.T) {
	m := newMembers(t, 3)
	for at, one := range m.all {
		m.answers(one, refusal(codes.Unavailable, "NOT_OWNER", m.all[(at+1)%3]))
	}
	m.run(m.targets(), unchanged)
	for n := 0; n < 3; n++ {
		m.clock.pause(t, n)
	}
	m.clock.awaitPause(t, 3)
	m.answers(m.all[0], nil)
	m.clock.pause(t, 3)
	m.serves(m.all[0])
	seen := strings.Fields(m.called())
	if len(seen) < 4*3 || len(seen) > 4*6+2 {
		t.Errorf("%d registrations: %v", len(seen), seen)
	}
}

func TestMembersThatEndEachSessionAtOnceAreNotCalledInALoop(t *testing.T) {
	m := newMembers(t, 2)
	for at := range m.all {
		one, other := m.all[at], m.all[1-at]
		one.admit = func(context.Context, metadata.MD) (metadata.MD, error) {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.calls = append(m.calls, call{one.name, nil})
			return metadata.Pairs("x-si-members", one.address+","+other.address), nil
		}
		// No stream finds its session.
		one.refuses = "SESSION_STALE"
	}
	m.run(m.targets(), unchanged)
	m.clock.pause(t, 0)
	m.clock.pause(t, 1)
	m.clock.awaitPause(t, 2)
	if seen := len(strings.Fields(m.called())); seen > 3*4 {
		t.Errorf("%d registrations", seen)
	}
}

func TestAllMembersGoneAndBack(t *testing.T) {
	m := newMembers(t, 3)
	m.run(m.targets()[:1], unchanged)
	m.serves(m.all[0])
	m.settle()
	for at := range m.all {
		m.kill(m.all[2-at])
	}
	m.clock.pause(t, 0)
	m.clock.pause(t, 1)
	m.clock.awaitPause(t, 2)
	m.start(m.all[2], m.all[2].address)
	m.clock.pause(t, 2)
	m.serves(m.all[2])
	if seen := m.called(); seen != "m1 m3" {
		t.Errorf("registrations at %s", seen)
	}
}

func TestAnAddressThatNeverAnswersCostsASecond(t *testing.T) {
	deaf, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer deaf.Close()
	m := newMembers(t, 1)
	m.run([]string{deaf.Addr().String(), m.all[0].address}, unchanged)
	m.clock.expire(t, shortConnect)
	m.serves(m.all[0])
	if err := received(t, "the reason", m.broken); !strings.Contains(err.Error(), "no connection to `"+deaf.Addr().String()+"` within 1s") {
		t.Error(err)
	}
}

func TestAMemberThatAnswersNoRegistrationIsLeft(t *testing.T) {
	m := newMembers(t, 2)
	m.answers(m.all[0], func(ctx context.Context, _ metadata.MD) error {
		<-ctx.Done()
		return ctx.Err()
	})
	m.run(m.targets(), unchanged)
	eventually(t, "the first registration", func() bool { return m.called() == "m1" })
	m.clock.expire(t, shortAnswer)
	m.serves(m.all[1])
}

func TestAMemberThatOpensNoStreamsIsLeft(t *testing.T) {
	m := newMembers(t, 2)
	m.all[0].hangs = true
	m.run(m.targets(), unchanged)
	eventually(t, "the streams are requested", func() bool { return m.all[0].hung.Load() == 3 })
	m.clock.expire(t, shortAnswer)
	if err := received(t, "the reason", m.broken); !errors.Is(err, ErrSilent) {
		t.Error(err)
	}
	m.serves(m.all[1])
}

func TestWhileTheArbiterIsAwayPausesStayShort(t *testing.T) {
	m := newMembers(t, 2)
	for _, one := range m.all {
		m.answers(one, refusal(codes.Unavailable, "ARBITER_UNAVAILABLE", nil))
	}
	m.run(m.targets(), unchanged)
	for n := 0; n < 5; n++ {
		m.clock.pause(t, 0)
	}
	m.clock.awaitPause(t, 0)
	m.answers(m.all[0], nil)
	m.clock.pause(t, 0)
	m.serves(m.all[0])
}

// beating starts members with beats and a client of the first, which has received one beat.
func beating(t *testing.T, n int, change func(*Config)) *members {
	m := newMembers(t, n)
	for _, one := range m.all {
		one.beat = "100"
	}
	m.run(m.targets()[:1], change)
	m.serves(m.all[0])
	m.settled()
	return m
}

// settled lets the session become an old one, with beats.
func (m *members) settled() {
	m.t.Helper()
	for n := 0; n < 25; n++ {
		m.tick()
		m.beatOnce(m.all[0])
	}
}

// tick lets the client look at the clock once.
func (m *members) tick() {
	m.t.Helper()
	m.clock.expire(m.t, tickEvery)
	eventually(m.t, "the next tick", func() bool { return m.clock.has(tickEvery, tickEvery) })
}

// beatOnce makes the owner send a beat, and waits until the client waits for the next one.
func (m *members) beatOnce(owner *member) {
	m.t.Helper()
	select {
	case owner.beats <- struct{}{}:
	case <-time.After(30 * time.Second):
		m.t.Fatal("the owner has no stream for beats")
	}
	v := m.client.watch
	eventually(m.t, "the beat is received", func() bool {
		v.mu.Lock()
		defer v.mu.Unlock()
		return v.silence.waits && v.silence.since.Equal(m.clock.now())
	})
}

// fallSilent lets ticks pass without a beat, until the client gives the owner up.
func (m *members) fallSilent() {
	m.t.Helper()
	began := m.clock.now()
	for len(m.broken) == 0 {
		m.clock.expire(m.t, tickEvery)
		eventually(m.t, "the next tick", func() bool { return m.clock.has(tickEvery, tickEvery) || len(m.broken) > 0 })
		if m.clock.now().Sub(began) > time.Minute {
			m.t.Fatal("there is no alarm")
		}
	}
	if err := received(m.t, "the reason", m.broken); !errors.Is(err, ErrSilent) {
		m.t.Errorf("the owner was given up for %v", err)
	}
	if silent := m.clock.now().Sub(began); silent < leastSilence || silent > leastSilence+tickEvery {
		m.t.Errorf("the owner was given up after %v", silent)
	}
}

func TestASilentOwnerIsSuspectedOnce(t *testing.T) {
	m := beating(t, 3, unchanged)
	m.fallSilent()
	m.serves(m.all[1])
	if seen := fmt.Sprint(m.called(), m.shown("x-si-suspects")); seen != "m1 m2[ run of m1]" {
		t.Error(seen)
	}
}

func TestAfterAFalseAlarmTheOwnerIsTriedOnce(t *testing.T) {
	m := beating(t, 3, unchanged)
	m.answers(m.all[1], refusal(codes.Unavailable, "NOT_OWNER", m.all[0]))
	m.all[0].mu.Lock()
	m.all[0].effects = nil
	m.all[0].mu.Unlock()
	m.fallSilent()
	m.serves(m.all[0])
	if seen := fmt.Sprint(m.called(), m.shown("x-si-suspects")); seen != "m1 m2 m1[ run of m1 ]" {
		t.Error(seen)
	}
}

func TestAnOwnerThatStaysSilentIsLeft(t *testing.T) {
	m := beating(t, 3, unchanged)
	redirect := refusal(codes.Unavailable, "NOT_OWNER", m.all[0])
	m.answers(m.all[1], func(ctx context.Context, shown metadata.MD) error {
		if first(shown, "x-si-suspects") == "" {
			return nil
		}
		return redirect(ctx, shown)
	})
	m.answers(m.all[0], func(ctx context.Context, _ metadata.MD) error {
		<-ctx.Done()
		return ctx.Err()
	})
	m.fallSilent()
	eventually(t, "the owner is tried", func() bool { return m.called() == "m1 m2 m1" })
	m.clock.expire(t, shortAnswer)
	m.serves(m.all[1])
	if seen := fmt.Sprint(m.called(), m.shown("x-si-suspects")); seen != "m1 m2 m1 m2[ run of m1  ]" {
		t.Error(seen)
	}
}

func TestASuspicionIsToldUntilAMemberAnswers(t *testing.T) {
	m := beating(t, 3, unchanged)
	m.kill(m.all[1])
	m.fallSilent()
	m.serves(m.all[2])
	if seen := fmt.Sprint(m.called(), m.shown("x-si-suspects")); seen != "m1 m3[ run of m1]" {
		t.Error(seen)
	}
}

func TestTheOnlyMemberIsRegisteredAtAgainWhenItIsSilent(t *testing.T) {
	m := beating(t, 1, unchanged)
	m.fallSilent()
	m.clock.pause(t, 0)
	eventually(t, "the second registration", func() bool { return m.called() == "m1 m1" })
}

func TestWithoutBeatsSilenceIsNotCounted(t *testing.T) {
	m := newMembers(t, 2)
	m.run(m.targets(), unchanged)
	m.serves(m.all[0])
	if m.clock.has(tickEvery, tickEvery) {
		t.Error("the client counts silence of an owner that has announced no beats")
	}
}

// slow is a handler that blocks on the first allocation until it is released.
type slow struct {
	listener
	blocks  chan struct{}
	release chan struct{}
}

func (s *slow) Allocations(m *si.AllocationResponse) {
	s.listener.Allocations(m)
	select {
	case s.blocks <- struct{}{}:
		<-s.release
	default:
	}
}

func TestWhatALostSessionHasSentIsDropped(t *testing.T) {
	m := newMembers(t, 2)
	handler := &slow{blocks: make(chan struct{}, 1), release: make(chan struct{})}
	m.run(m.targets(), func(c *Config) { c.Handler = handler })
	m.serves(m.all[0])
	eventually(t, "the handler blocks", func() bool { return len(handler.blocks) == 1 })
	for _, key := range []string{"lost1", "lost2"} {
		if err := m.client.Allocate(during(t), ask(key)); err != nil {
			t.Fatal(err)
		}
		if err := m.client.Flush(during(t)); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "the answers are queued", func() bool { return m.client.inbox.resume(allocations) == 3 })
	m.settle()
	m.kill(m.all[0])
	eventually(t, "the session is lost", func() bool { return strings.HasSuffix(m.called(), "m2") })
	close(handler.release)
	m.serves(m.all[1])
	if err := m.client.Allocate(during(t), ask("later")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the answers of the new owner", func() bool { return strings.Contains(fmt.Sprint(handler.all()), "later") })
	var seen []string
	for _, one := range handler.all() {
		if strings.HasPrefix(one, "allocation") {
			seen = append(seen, one)
		}
	}
	if fmt.Sprint(seen) != "[allocation a allocation a allocation later]" {
		t.Error(seen)
	}
}

func TestCallbacksMoveToTheNewOwner(t *testing.T) {
	asked := make(chan string, 8)
	m := newMembers(t, 2)
	m.run(m.targets(), func(c *Config) {
		c.Callbacks = &Callbacks{Judge: func(ctx context.Context, q Question) Answer {
			asked <- q.Allocation
			if q.Allocation == "slow" {
				// Until the client has noticed the end of the stream.
				<-ctx.Done()
			}
			return Answer{Fits: true}
		}}
	})
	m.serves(m.all[0])
	stream := received(t, "the first stream", m.all[0].asker.streams)
	stream.t = t
	stream.names(1)
	stream.send(batchOf(1, query("slow", 1)))
	received(t, "the first question", asked)
	stream.send(batchOf(2, query("dropped", 1)))
	m.settle()
	m.kill(m.all[0])
	m.serves(m.all[1])
	stream = received(t, "the second stream", m.all[1].asker.streams)
	stream.t = t
	if stream.hello.SessionId != 2 {
		t.Errorf("the session of Hello is %d", stream.hello.SessionId)
	}
	stream.names(1)
	stream.send(batchOf(1, query("again", 1)))
	if answer := stream.receive().GetPredicateResults(); answer.GetBatchId() != 1 || answer.GetResults()[0].GetPassBitmap()[0] != 1 {
		t.Error(answer)
	}
	if seen := received(t, "a question", asked); seen != "again" {
		t.Errorf("`%s` was asked after its stream had ended", seen)
	}
}

func TestMessagesOfAnEndedStreamAreNotHandled(t *testing.T) {
	messages := make(chan *mono.CoreMessage, 100)
	for n := 0; n < cap(messages); n++ {
		messages <- &mono.CoreMessage{}
	}
	ctx, cancel := context.WithCancel(context.Background())
	n := 0
	lane(messages, func(context.Context, *mono.CoreMessage) {
		n++
		cancel()
	})(ctx)
	if n != 1 {
		t.Errorf("%d messages were handled after the end", n-1)
	}
}

func TestASlowProgramRaisesNoAlarm(t *testing.T) {
	m := newMembers(t, 2)
	m.all[0].beat = "100"
	m.tune = func(c *Client) { c.inbox.queue = make(chan delivery, 1) }
	handler := &slow{blocks: make(chan struct{}, 1), release: make(chan struct{})}
	m.run(m.targets(), func(c *Config) { c.Handler = handler })
	m.serves(m.all[0])
	eventually(t, "the handler blocks", func() bool { return len(handler.blocks) == 1 })
	// One answer is queued, and the reader waits with the next one.
	for _, key := range []string{"b", "c"} {
		if err := m.client.Allocate(during(t), ask(key)); err != nil {
			t.Fatal(err)
		}
		if err := m.client.Flush(during(t)); err != nil {
			t.Fatal(err)
		}
	}
	v := m.client.watch
	eventually(t, "nothing is read", func() bool {
		v.mu.Lock()
		defer v.mu.Unlock()
		return v.counts && !v.silence.waits && len(m.client.inbox.queue) == 1
	})
	for n := 0; n < 100; n++ {
		m.tick()
	}
	close(handler.release)
	for n := 0; n < 10; n++ {
		m.tick()
		m.beatOnce(m.all[0])
	}
	if seen := m.called(); seen != "m1" || len(m.broken) > 0 {
		t.Errorf("registrations at %s", seen)
	}
}

// departures is an administrator's service that answers deregistrations as a test wants, and nothing unless the
// test has said how.
type departures struct {
	mono.UnimplementedAdminServiceServer
	asked   chan uint64
	answers chan func(context.Context) error
}

func newDepartures() departures {
	return departures{asked: make(chan uint64, 8), answers: make(chan func(context.Context) error, 8)}
}

func (d *departures) DeregisterResourceManager(ctx context.Context, request *mono.DeregisterResourceManagerRequest) (*mono.DeregisterResourceManagerResponse, error) {
	d.asked <- request.SessionId
	select {
	case answer := <-d.answers:
		return &mono.DeregisterResourceManagerResponse{}, answer(ctx)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func agreed(context.Context) error { return nil }

// refuses is an answer with a reason.
func refuses(reason string) func(context.Context) error {
	return func(ctx context.Context) error { return refusal(codes.Unavailable, reason, nil)(ctx, nil) }
}

// leave deregisters, until ctx ends.
func (m *members) leave(ctx context.Context) chan error {
	left := make(chan error, 1)
	go func() { left <- m.client.Deregister(ctx, "") }()
	return left
}

// hasLeft waits until Deregister and Run have returned nil.
func (m *members) hasLeft(left chan error) {
	m.t.Helper()
	if err := received(m.t, "the end of Deregister", left); err != nil {
		m.t.Errorf("Deregister: %v", err)
	}
	eventually(m.t, "Run ends", func() bool { return m.client.life.hasEnded() != nil })
	if err := m.client.life.hasEnded(); err != ErrEnded {
		m.t.Errorf("Run: %v", err)
	}
}

func TestADeregistrationFollowsTheLossOfTheOwner(t *testing.T) {
	m := newMembers(t, 2)
	m.run(m.targets(), unchanged)
	m.serves(m.all[0])
	left := m.leave(context.Background())
	received(t, "the call", m.all[0].admin.asked)
	m.settle()
	m.kill(m.all[0])
	m.serves(m.all[1])
	m.all[1].admin.answers <- agreed
	m.clock.expire(t, leaveEvery)
	if session := received(t, "the second call", m.all[1].admin.asked); session != 2 {
		t.Errorf("session %d", session)
	}
	m.hasLeft(left)
}

func TestADeregistrationIsTriedAgainWhileAMemberCannotDecide(t *testing.T) {
	m := newMembers(t, 2)
	m.run(m.targets(), unchanged)
	m.serves(m.all[0])
	left := m.leave(context.Background())
	for _, reason := range []string{"CLAIM_CONTENDED", "OWNER_UNREACHABLE", "ARBITER_UNAVAILABLE", "NOT_OWNER", "SESSION_MOVED"} {
		m.all[0].admin.answers <- refuses(reason)
		m.clock.expire(t, leaveEvery)
	}
	m.all[0].admin.answers <- agreed
	m.hasLeft(left)
	if seen := m.called(); seen != "m1" {
		t.Errorf("registrations at %s", seen)
	}
}

func TestADeregistrationThatGaveUpIsNotUndoneWhenTheOwnerIsLost(t *testing.T) {
	m := newMembers(t, 2)
	m.run(m.targets(), unchanged)
	m.serves(m.all[0])
	ctx, giveUp := context.WithCancel(context.Background())
	left := m.leave(ctx)
	received(t, "the call", m.all[0].admin.asked)
	giveUp()
	if err := received(t, "the end of Deregister", left); !errors.Is(err, context.Canceled) {
		t.Errorf("Deregister: %v", err)
	}
	m.settle()
	m.kill(m.all[0])
	eventually(t, "Run ends", func() bool { return m.client.life.hasEnded() != nil })
	if err := m.client.life.hasEnded(); err != ErrEnded {
		t.Errorf("Run: %v", err)
	}
	if seen := m.called(); seen != "m1" {
		t.Errorf("registrations at %s", seen)
	}
}

func TestASecondInstanceReportsItsStateInACluster(t *testing.T) {
	m := newMembers(t, 2)
	m.answers(m.all[0], refusal(codes.Unavailable, "NOT_OWNER", m.all[1]))
	m.run(m.targets(), func(c *Config) { c.Attach, c.Instance = true, "second" })
	m.serves(m.all[1])
	m.answers(m.all[0], nil)
	m.settle()
	m.kill(m.all[1])
	m.serves(m.all[0])
	if seen := fmt.Sprint(m.shown("x-si-register-mode"), m.shown("x-si-instance")); seen != "[attach attach ] [second second second]" {
		t.Error(seen)
	}
}
