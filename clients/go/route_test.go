package monoceros

import (
	"fmt"
	"math/rand"
	"slices"
	"strings"
	"testing"
	"time"
)

func inOrderOfTheList([]string) {}

// over is the end of a session that has lasted for a while.
func over(owner string) attempted {
	return attempted{opened: true, lasted: time.Minute, isAnswered: owner != "", owner: owner}
}

// tried returns the addresses that are tried without a pause after this end, if all attempts fail without
// an answer.
func tried(r *route, end attempted) string {
	var all []string
	for r.after(end) {
		all = append(all, r.present)
		end = attempted{}
	}
	return strings.Join(all, " ")
}

func TestARoundGoesOverAllAddresses(t *testing.T) {
	for what, one := range map[string]struct {
		configured []string
		members    string
		end        attempted
		expected   string
	}{
		"one address":                   {[]string{"a"}, "", over(""), ""},
		"one address and its member":    {[]string{"a"}, "a", over(""), ""},
		"one address moves":             {[]string{"a"}, "", over("b"), "b a"},
		"configured ones, in a cluster": {[]string{"a", "b", "a"}, "a", over(""), "b a"},
		"the lost one is last":          {[]string{"a", "b", "c"}, "a,b,c", over(""), "b c a"},
		"members come first":            {[]string{"vip"}, "a,b,c", over(""), "b c a vip"},
		"the named owner comes first":   {[]string{"vip"}, "a,b,c", over("c"), "c b a vip"},
		"an unknown owner":              {[]string{"vip"}, "a,b,c", over("d"), "d b c a vip"},
		"the session goes on":           {[]string{"a", "b"}, "", attempted{opened: true, stays: true}, "a b"},
		"the scheduler wants time":      {[]string{"a", "b"}, "", attempted{opened: true, stays: true, waits: true, isAnswered: true}, ""},
		"the owner stays":               {[]string{"vip"}, "vip,b", attempted{opened: true, lasted: brief, stays: true, isAnswered: true}, "vip b"},
		"streams were not opened":       {[]string{"a", "b"}, "", attempted{stays: true, isAnswered: true}, ""},
		"the session is not known":      {[]string{"a", "b"}, "", attempted{stays: true, isAnswered: true, isOver: true}, "a b"},
		"the only one was restarted":    {[]string{"a"}, "", attempted{stays: true, isAnswered: true, isOver: true}, ""},
	} {
		r := newRoute(one.configured...)
		r.registered(one.members, inOrderOfTheList)
		if seen := tried(r, one.end); seen != one.expected {
			t.Errorf("%s: %q, expected %q", what, seen, one.expected)
		}
	}
}

func TestEachFurtherRoundFollowsAPause(t *testing.T) {
	r := newRoute("a", "b")
	var all []string
	for n := 0; n < 6; n++ {
		mark := ""
		if !r.after(attempted{}) {
			mark = "*"
		}
		all = append(all, mark+r.present)
	}
	if seen := fmt.Sprint(all); seen != "[b *a b *a b *a]" {
		t.Error(seen)
	}
}

func TestAnAddressThatWasNamedNamesNoOther(t *testing.T) {
	r := newRoute("a", "b", "c")
	names := map[string]string{"a": "x", "x": "y", "b": "b", "c": "x"}
	all := []string{r.present}
	for r.after(attempted{isAnswered: true, owner: names[r.present]}) {
		all = append(all, r.present)
	}
	if seen := fmt.Sprint(all); seen != "[a x b c x]" {
		t.Error(seen)
	}
	// The owner that the end of a session names is followed, however the client has come to it.
	r.registered("x,y,z", inOrderOfTheList)
	r.present, r.isNamed = "x", true
	if !r.after(over("z")) || r.present != "z" {
		t.Errorf("the next is %s", r.present)
	}
}

func TestAfterAFalseSuspicionTheMemberIsTriedAgain(t *testing.T) {
	r := newRoute("a")
	r.registered("a,b", inOrderOfTheList)
	if r.after(over("")); r.present != "b" {
		t.Fatal(r.present)
	}
	if seen := tried(r, attempted{isAnswered: true, owner: "a", isSuspicion: true}); seen != "a b" {
		t.Errorf("%q", seen)
	}
}

func TestMembersForwardIfARedirectLeadsNowhere(t *testing.T) {
	r := newRoute("vip")
	if !r.takesRedirects {
		t.Error("not from the beginning")
	}
	r.after(attempted{isAnswered: true, owner: "a"})
	r.after(attempted{isAnswered: true})
	if !r.takesRedirects {
		t.Error("not after an answer of the named address")
	}
	r.after(attempted{isAnswered: true, owner: "a"})
	if r.asksForRedirects() {
		t.Error("of the named address, too")
	}
	r.after(attempted{})
	if r.takesRedirects || r.present != "vip" {
		t.Errorf("redirects go on, the next address is %s", r.present)
	}
	r.after(over(""))
	if !r.takesRedirects {
		t.Error("not after a session")
	}
}

func TestBriefSessionsAreFollowedByPauses(t *testing.T) {
	r := newRoute("a", "b")
	r.registered("a,b", inOrderOfTheList)
	owners := map[string]string{"a": "b", "b": "a"}
	for n := 0; n < 6; n++ {
		end := attempted{opened: true, lasted: brief / 2, isAnswered: true, owner: owners[r.present]}
		if quick := r.after(end); quick != (n < mostBrief) {
			t.Errorf("session %d: quick is %v", n, quick)
		}
	}
	if !r.after(over("")) {
		t.Error("a pause after a session that was not brief")
	}
}

func TestPatienceGrowsWithEachRound(t *testing.T) {
	r := newRoute("a", "b")
	var seen []time.Duration
	for n := 0; n < 12; n++ {
		if !r.after(attempted{}) {
			seen = append(seen, r.patience(time.Second, 5*time.Second))
		}
	}
	if text := fmt.Sprint(seen); text != "[2s 4s 5s 5s 5s 5s]" {
		t.Error(text)
	}
	r = newRoute("a")
	r.registered("a,b", inOrderOfTheList)
	if r.after(over("")); r.present != "b" || r.patience(time.Second, 5*time.Second) != time.Second {
		t.Errorf("at the last of two members: %v", r.patience(time.Second, 5*time.Second))
	}
	if seen := newRoute("a").patience(time.Second, 5*time.Second); seen != 5*time.Second {
		t.Errorf("with one address: %v", seen)
	}
}

func TestAListOfMembersIsRead(t *testing.T) {
	r := newRoute("a")
	r.registered(" a:1,b:2,, a:1 ,[::1]:3,"+strings.Repeat("x", addressBytes+1), inOrderOfTheList)
	if seen := fmt.Sprint(r.members); seen != "[a:1 b:2 [::1]:3]" {
		t.Error(seen)
	}
	r.registered("a,b,c,d", func(others []string) { slices.Reverse(others) })
	if seen := fmt.Sprint(r.members); seen != "[a d c b]" {
		t.Error(seen)
	}
	if r.registered("", inOrderOfTheList); r.isCluster() {
		t.Error(r.members)
	}
	var many []string
	for n := 0; n < 2*mostMembers; n++ {
		many = append(many, fmt.Sprint("m", n))
	}
	if r.registered(strings.Join(many, ","), inOrderOfTheList); len(r.members) != mostMembers {
		t.Error(len(r.members))
	}
	// No member is left out by all clients.
	r.registered(strings.Join(many, ","), func(others []string) { slices.Reverse(others) })
	if r.members[0] != many[0] || r.members[1] != many[len(many)-1] {
		t.Error(r.members)
	}
}

// Whatever members answer, rounds without a pause are bounded, leave no address out, and no address that was
// named names another.
func TestRoundsAreBoundedAndComplete(t *testing.T) {
	names := []string{"", "a", "b", "c", "d", "e"}
	for seed := int64(0); seed < 2000; seed++ {
		dice := rand.New(rand.NewSource(seed))
		some := func() []string {
			list := slices.Clone(names[1:])
			dice.Shuffle(len(list), func(a, b int) { list[a], list[b] = list[b], list[a] })
			return list[:1+dice.Intn(len(list))]
		}
		r := newRoute(some()...)
		if dice.Intn(2) == 0 {
			r.registered(strings.Join(some(), ","), inOrderOfTheList)
		}
		r.after(over(""))
		for round := 0; round < 20; round++ {
			known := r.all()
			seen, attempts, suspicions := map[string]bool{}, 0, 0
			for quick := true; quick; {
				attempts++
				seen[r.present] = true
				wasNamed := r.isNamed
				end := attempted{owner: names[dice.Intn(len(names))], isSuspicion: suspicions == 0 && dice.Intn(4) == 0}
				end.isAnswered = end.owner != ""
				if end.isSuspicion && end.isAnswered {
					suspicions++
				}
				quick = r.after(end)
				if wasNamed && r.isNamed {
					t.Fatalf("seed %d: two named addresses in a row", seed)
				}
			}
			if attempts > 2*(len(known)+suspicions) {
				t.Fatalf("seed %d: %d attempts at %d addresses", seed, attempts, len(known))
			}
			for _, address := range known {
				// The first round goes over others than the lost owner first, but leaves none out.
				if !seen[address] {
					t.Fatalf("seed %d: %s is left out of %v", seed, address, seen)
				}
			}
		}
	}
}
