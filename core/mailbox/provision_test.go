// SPDX-License-Identifier: Apache-2.0

package mailbox_test

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/mailbox"
)

func TestAliasesDifferByDomain(t *testing.T) {
	form := regexp.MustCompile(`^[a-z0-9_-]+(\.[a-z0-9_-]+)*$`)
	rapid.Check(t, func(t *rapid.T) {
		local := rapid.StringMatching(`[a-z0-9_-]{1,20}(\.[a-z0-9_-]{1,20}){0,2}`).Draw(t, "local")
		one, two := mailbox.Alias(local+"@one.test"), mailbox.Alias(local+"@two.test")
		if one == two {
			t.Fatalf("%s on two domains has one alias", local)
		}
		if len(one) > 64 || !form.MatchString(one) || one != mailbox.Alias(local+"@one.test") {
			t.Fatalf("alias %q", one)
		}
	})
}

func TestAliasOfLongAddress(t *testing.T) {
	first := mailbox.Alias(strings.Repeat("a", 50) + "." + strings.Repeat("b", 13) + "@a.test")
	second := mailbox.Alias(strings.Repeat("a", 50) + "." + strings.Repeat("b", 12) + "c@a.test")
	if first == second || len(first) > 64 || strings.Contains(first, ".-") {
		t.Fatalf("%q and %q", first, second)
	}
}

func TestAdmitLimitsTheMailboxesOfADomain(t *testing.T) {
	held := []string{"a@a.test", "b@a.test", "c@a.test"}
	for _, tt := range []struct {
		name     string
		existing []string
		wanted   []string
		fresh    int
		refused  bool
	}{
		{"three on an empty domain", nil, held, 3, false},
		{"the same three again", held, held, 0, false},
		{"two in addition to one", held[:1], []string{"d@a.test", "e@a.test"}, 2, false},
		{"one new in addition to two of three", held[:2], held, 1, false},
		{"two new in addition to two", held[:2], []string{"d@a.test", "e@a.test"}, 0, true},
		{"a fourth", held, []string{"d@a.test"}, 0, true},
		{"four at once", nil, append(held[:3:3], "d@a.test"), 0, true},
		{"existing ones of a domain with too many", append(held[:3:3], "d@a.test"), held, 0, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			fresh, err := mailbox.SelectNew(tt.existing, specs(tt.wanted...), mailbox.MaxPerDomain)
			if len(fresh) != tt.fresh || errors.Is(err, fault.MailboxLimitReached) != tt.refused {
				t.Fatalf("got %v, %v", fresh, err)
			}
		})
	}
}

func TestAdmitNeverExceedsLimit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		address := rapid.Custom(func(t *rapid.T) string { return fmt.Sprintf("m%d@a.test", rapid.IntRange(0, 5).Draw(t, "n")) })
		distinct := func(name string, most int) []string {
			return rapid.SliceOfNDistinct(address, 0, most, rapid.ID[string]).Draw(t, name)
		}
		existing, wanted := distinct("existing", 3), distinct("wanted", 5)
		fresh, err := mailbox.SelectNew(existing, specs(wanted...), 3)
		missing := 0
		for _, w := range wanted {
			if !strings.Contains(strings.Join(existing, " "), w) {
				missing++
			}
		}
		if fits := len(existing)+missing <= 3 || missing == 0; fits != (err == nil) || err == nil && len(fresh) != missing {
			t.Fatalf("%v and %v: %v, %v", existing, wanted, fresh, err)
		}
	})
}

func TestNextStepFollowsStageAndPlatform(t *testing.T) {
	for _, tt := range []struct {
		name  string
		stage mailbox.Stage
		found bool
		want  mailbox.Step
	}{
		{"reserved, not found", mailbox.Reserved, false, mailbox.Create},
		{"reserved, a foreign mailbox found", mailbox.Reserved, true, mailbox.Keep},
		{"creating, not found", mailbox.Creating, false, mailbox.Create},
		{"creating, found", mailbox.Creating, true, mailbox.Complete},
		{"created, not complete", mailbox.Created, true, mailbox.Complete},
		{"created, not found", mailbox.Created, false, mailbox.Create},
		{"ready", mailbox.Ready, true, mailbox.Keep},
		{"ready, not found", mailbox.Ready, false, mailbox.Keep},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := mailbox.NextStep(tt.stage, tt.found); got != tt.want {
				t.Fatalf("got %d, want %d", got, tt.want)
			}
		})
	}
}
