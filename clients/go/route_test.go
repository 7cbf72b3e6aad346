package monoceros

import (
	"fmt"
	"math/rand"
	"slices"
	"strings"
	"testing"
)

// tried returns the addresses that are tried without a pause if all attempts fail without naming an owner.
func tried(r *route) string {
	var all []string
	for r.isReady() {
		all = append(all, r.next())
		r.failed("")
	}
	return strings.Join(all, " ")
}

func TestARoundGoesOverAllAddresses(t *testing.T) {
	for what, one := range map[string]struct {
		configured, members []string
		settled             bool
		owner               string
		expected            string
	}{
		"one address":                  {[]string{"a"}, nil, true, "", ""},
		"one address and its member":   {[]string{"a"}, []string{"a"}, true, "", ""},
		"one address moves":            {[]string{"a"}, nil, true, "b", "b"},
		"configured ones":              {[]string{"a", "b", "a", ""}, nil, true, "", "a b"},
		"the lost one is last":         {[]string{"a", "b", "c"}, []string{"a", "b", "c"}, true, "", "b c a"},
		"members come first":           {[]string{"vip"}, []string{"a", "b", "c"}, true, "", "b c vip"},
		"the only member":              {[]string{"vip"}, []string{"a"}, true, "", "vip"},
		"the named owner comes first":  {[]string{"vip"}, []string{"a", "b", "c"}, true, "c", "c b vip"},
		"an unknown owner":             {[]string{"vip"}, []string{"a", "b", "c"}, true, "d", "d b c vip"},
		"a session that ended at once": {[]string{"vip"}, []string{"a", "b", "c"}, false, "", ""},
	} {
		r := newRoute(one.configured...)
		for r.isReady() {
			r.next()
		}
		r.registered(one.members)
		r.lost(one.settled, one.owner)
		if seen := tried(r); seen != one.expected {
			t.Errorf("%s: %q, expected %q", what, seen, one.expected)
		}
		r.begin()
		if seen := strings.Fields(tried(r)); len(seen) != len(unique(one.configured, one.members)) {
			t.Errorf("%s: after a pause %v", what, seen)
		}
	}
}

func TestAnAddressThatWasNamedNamesNoOther(t *testing.T) {
	r := newRoute("a", "b", "c")
	names := map[string]string{"a": "x", "x": "y", "b": "b", "c": "x"}
	var all []string
	for r.isReady() {
		address := r.next()
		all = append(all, address)
		r.failed(names[address])
	}
	if seen := fmt.Sprint(all); seen != "[a x b c x]" {
		t.Error(seen)
	}
}

func TestAListOfMembersIsRead(t *testing.T) {
	if seen := fmt.Sprint(membersOf(" a:1,b:2,, a:1 ,[::1]:3")); seen != "[a:1 b:2 [::1]:3]" {
		t.Error(seen)
	}
	if seen := membersOf(""); len(seen) != 0 {
		t.Error(seen)
	}
	if seen := membersOf(strings.Repeat("a,", 10) + fmt.Sprint(rand.New(rand.NewSource(1)).Perm(1000))); len(seen) > mostMembers {
		t.Error(len(seen))
	}
	var many []string
	for n := 0; n < 2*mostMembers; n++ {
		many = append(many, fmt.Sprint("m", n))
	}
	if seen := membersOf(strings.Join(many, ",")); len(seen) != mostMembers {
		t.Error(len(seen))
	}
}

// Whatever members answer, a round is bounded and leaves no address out.
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
		for rounds := 0; rounds < 20; rounds++ {
			known := unique(r.members, r.configured)
			if rounds > 0 {
				r.begin()
			}
			seen := map[string]bool{}
			attempts, wasNamed := 0, false
			for r.isReady() {
				attempts++
				named := r.owner != ""
				if named && wasNamed {
					t.Fatalf("seed %d: two named addresses in a row", seed)
				}
				wasNamed = named
				seen[r.next()] = true
				if dice.Intn(6) == 0 {
					// A session that ends at once.
					r.registered(some())
					r.lost(false, names[dice.Intn(len(names))])
				} else {
					r.failed(names[dice.Intn(len(names))])
				}
			}
			if attempts > 2*len(known) {
				t.Fatalf("seed %d: %d attempts at %d addresses", seed, attempts, len(known))
			}
			for _, address := range known {
				if !seen[address] {
					t.Fatalf("seed %d: %s is left out", seed, address)
				}
			}
		}
	}
}
