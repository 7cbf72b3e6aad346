package monoceros

import "strings"

// mostMembers is the most addresses of a list of members that are kept.
const mostMembers = 100

// route decides at which address the client registers next.
//
// A round goes over all known addresses once. The first round after a session is made without a pause. It
// begins with the owner that the end of the session or call names, if any; then come the other members of
// the last list, then the addresses of Config. An answer of a round that names an owner leads there at
// once, but the answer of that address leads nowhere: so a round has at most twice as many attempts as
// addresses, also if members contradict each other.
type route struct {
	configured []string
	// members is the list that came with the last registration, the owner's address first. It is empty
	// without a cluster.
	members []string
	// present is the address of the last attempt.
	present string
	// left are the addresses of the present round that were not tried yet.
	left []string
	// owner is the address that the last answer has named, if it is to be tried next.
	owner string
	// isNamed is true if present was named by an answer.
	isNamed bool
}

func newRoute(configured ...string) *route {
	all := unique(configured)
	return &route{configured: all, left: all}
}

// unique returns the texts in order, without empty and repeated ones.
func unique(texts ...[]string) []string {
	var all []string
	seen := map[string]bool{"": true}
	for _, some := range texts {
		for _, text := range some {
			if !seen[text] {
				seen[text] = true
				all = append(all, text)
			}
		}
	}
	return all
}

// membersOf reads the list of a registration's answer.
func membersOf(list string) []string {
	addresses := strings.Split(list, ",")
	for at := range addresses {
		addresses[at] = strings.TrimSpace(addresses[at])
	}
	all := unique(addresses)
	return all[:min(len(all), mostMembers)]
}

// hasSeveral reports whether more than one address is known.
func (r *route) hasSeveral() bool {
	return len(unique(r.members, r.configured, []string{r.present})) > 1
}

// isReady reports whether there is an address to try without a pause.
func (r *route) isReady() bool { return r.owner != "" || len(r.left) > 0 }

// next returns the address to register at; isReady has to be true.
func (r *route) next() string {
	if r.owner != "" {
		r.present, r.owner, r.isNamed = r.owner, "", true
		r.left = without(r.left, r.present)
		return r.present
	}
	r.present, r.left, r.isNamed = r.left[0], r.left[1:], false
	return r.present
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

// begin starts a round, over all addresses.
func (r *route) begin() { r.left = unique(r.members, r.configured) }

// registered records the members named by the answer to a registration.
func (r *route) registered(members []string) { r.members = members }

// failed records that the attempt at the present address has failed with an answer that names an owner,
// if it is not empty.
func (r *route) failed(owner string) {
	if !r.isNamed && owner != r.present {
		r.owner = owner
	}
}

// lost records the end of a session, which may name its next owner. If the session was settled, it has
// lasted for a while, and a round begins without a pause. Otherwise the round that led to it goes on, so
// that members which end each session at once are not called in a loop. With a single address there is a
// pause.
func (r *route) lost(settled bool, owner string) {
	if settled {
		r.isNamed, r.left = false, nil
		if r.hasSeveral() {
			r.left = unique(r.members[min(1, len(r.members)):], r.configured)
		}
	}
	r.failed(owner)
}
