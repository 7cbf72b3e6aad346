package monoceros

import (
	"testing"

	mono "monoceros.io/clients/go/v1"
)

// The topics of other nodes are part of a passing answer, and of no other.
func TestAnAnswerCarriesTheTopicsOfOtherNodes(t *testing.T) {
	a := &attachment{
		Callbacks: Callbacks{
			Predicate: func(asked Question) (bool, string) { return asked.Node == "n2", "not there" },
			Elsewhere: func(asked Question) *mono.Elsewhere {
				if asked.Application != "app" || asked.Node != "n2" {
					t.Errorf("asked about %+v", asked)
				}
				return &mono.Elsewhere{DependsOn: []uint64{2}, Affects: []uint64{1}}
			},
		},
		names: map[uint32]string{1: "n1", 2: "n2"},
	}
	query := &mono.PredicateQuery{ApplicationId: "app", AllocationKey: "k", NodeIndex: []uint32{1, 2}}
	said := a.result(during(t), query).GetElsewhere()
	if len(said.GetDependsOn()) != 1 || said.GetDependsOn()[0] != 2 || said.GetAffects()[0] != 1 {
		t.Errorf("said %v", said)
	}
	query.NodeIndex = []uint32{1}
	if said := a.result(during(t), query).GetElsewhere(); said != nil {
		t.Errorf("said %v of a refusal", said)
	}
	a.Elsewhere, query.NodeIndex = nil, []uint32{2}
	if said := a.result(during(t), query).GetElsewhere(); said != nil {
		t.Errorf("said %v by itself", said)
	}
}
