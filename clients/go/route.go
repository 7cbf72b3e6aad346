package monoceros

import (
	"slices"
	"strings"
	"time"
)

const (
	// mostMembers is the most members that are kept, and addressBytes the most bytes of an address.
	mostMembers  = 100
	addressBytes = 256
	// brief is the life of a session that was too short to be followed by another one at once, if there
	// were more than mostBrief in a row.
	brief     = time.Second
	mostBrief = 3
)

// route has the addresses of a scheduler, and decides which of them is tried next.
//
// In a cluster another member can serve an RM whose owner is lost. So after a loss there is a round over all
// addresses without a pause: first the owner that the end of the session names, then the other members of
// the last list, then the configured addresses, and last that of the lost owner. If none serves the RM, the
// client pauses before each further round.
//
// An address that an answer names is tried at once, but an address that is named by its answer is not. So a
// round has at most twice as many attempts as addresses, and one more for a suspicion, also if members name
// each other in a circle. With a single address, each attempt but the first follows a pause.
type route struct {
	configured []string
	// members is the list that came with the last registration, the owner first. It is empty without a
	// cluster.
	members []string
	// present is the address of the present attempt.
	present string
	// left are the addresses of the round that were not tried yet.
	left []string
	// rounds is the number of rounds that have begun since streams were open.
	rounds int
	// nBrief is the number of brief sessions in a row.
	nBrief int
	// isNamed is true if present was named by an answer.
	isNamed bool
	// takesRedirects is false after a redirect to an address that did not answer: the client may be unable
	// to reach it, so members have to forward calls.
	takesRedirects bool
}

// attempted is the end of an attempt, or of the streams to which it has led.
type attempted struct {
	// opened is true if streams were open, and lasted is for how long.
	opened bool
	lasted time.Duration
	// stays is true if the same address is to be tried next, and waits if only after a pause.
	stays, waits bool
	// isOver is true if the attempt was to continue a session, which the scheduler has ended.
	isOver bool
	// isAnswered is true if the scheduler has given a reason.
	isAnswered bool
	// owner is the address of the owner, if the answer has named it.
	owner string
	// isSuspicion is true if the attempt has named an owner that fell silent. It is repeated without that if
	// the owner is lost indeed.
	isSuspicion bool
}

func newRoute(configured ...string) *route {
	all := unique(configured)
	return &route{configured: all, present: all[0], left: all[1:], takesRedirects: true}
}

// unique returns the addresses in order, without empty, repeated and too long ones.
func unique(texts ...[]string) []string {
	var all []string
	seen := map[string]bool{"": true}
	for _, some := range texts {
		for _, text := range some {
			if text = strings.TrimSpace(text); !seen[text] && len(text) <= addressBytes {
				seen[text] = true
				all = append(all, text)
			}
		}
	}
	return all
}

// isCluster reports whether the scheduler is a cluster.
func (r *route) isCluster() bool { return len(r.members) > 0 }

// all returns all addresses, members first.
func (r *route) all() []string { return unique(r.members, r.configured) }

// isOwner reports whether the address is one of the present owner.
func (r *route) isOwner(address string) bool {
	return address == r.present || r.isCluster() && address == r.members[0]
}

// hasOthers reports whether there are addresses besides those of the present owner.
func (r *route) hasOthers() bool {
	return slices.ContainsFunc(r.all(), func(address string) bool { return !r.isOwner(address) })
}

// hasSeveral reports whether there are addresses besides the present one.
func (r *route) hasSeveral() bool {
	return slices.ContainsFunc(r.all(), func(address string) bool { return address != r.present })
}

// patience returns the usual time limit, or a shorter one if there are other addresses: it doubles with each
// round.
func (r *route) patience(short, usual time.Duration) time.Duration {
	if !r.hasSeveral() {
		return usual
	}
	return min(short<<min(r.rounds, 8), usual)
}

// registered keeps the list of members that came with a registration, which may be empty. The order of the
// members besides the owner is left to shuffle, before the list is cut, so that none is left out by all clients.
func (r *route) registered(list string, shuffle func([]string)) {
	members := unique(strings.Split(list, ","))
	if len(members) > 0 {
		shuffle(members[1:])
	}
	r.members = members[:min(len(members), mostMembers)]
}

// asksForRedirects returns true if members may name the owner in place of forwarding. A member that was named may
// not: of two that each take the other for the one with less load, one has to serve.
func (r *route) asksForRedirects() bool {
	return r.takesRedirects && !r.isNamed
}

// after chooses the next address. It returns false if the client has to pause before.
func (r *route) after(end attempted) bool {
	wasNamed := r.isNamed
	r.isNamed = false
	isQuick := true
	switch {
	case end.opened:
		wasNamed, r.takesRedirects, r.rounds = false, true, 0
		r.nBrief++
		if end.lasted >= brief {
			r.nBrief = 0
		}
		r.left = r.round(end.stays)
		isQuick = len(r.left) > 1 && !end.waits
	case end.stays:
		// A scheduler at another address does not know the session, and can be registered at once.
		return end.isOver && r.hasSeveral()
	case wasNamed && !end.isAnswered:
		r.takesRedirects = false
	}
	isQuick = isQuick && r.nBrief <= mostBrief
	if owner := end.owner; owner != "" && owner != r.present && len(owner) <= addressBytes && !wasNamed {
		if end.isSuspicion {
			r.left = append([]string{r.present}, r.left...)
		}
		r.left = without(r.left, owner)
		r.present, r.isNamed = owner, true
		return r.nBrief <= mostBrief
	}
	if len(r.left) == 0 {
		r.left, isQuick = r.round(false), false
		r.rounds++
	}
	r.present, r.left = r.left[0], r.left[1:]
	return isQuick
}

// round returns all addresses in the order of a round, in which the present one is first if the client
// stays there.
func (r *route) round(stays bool) []string {
	var others, lost []string
	for _, address := range r.all() {
		if r.isOwner(address) {
			lost = append(lost, address)
		} else {
			others = append(others, address)
		}
	}
	if stays {
		return unique([]string{r.present}, others, lost)
	}
	return append(others, lost...)
}

// without returns the addresses except one.
func without(addresses []string, one string) []string {
	var others []string
	for _, address := range addresses {
		if address != one {
			others = append(others, address)
		}
	}
	return others
}
