// SPDX-License-Identifier: Apache-2.0

package mailbox_test

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/mailbox"
)

func TestAliasesDifferByDomain(t *testing.T) {
	aliasForm := regexp.MustCompile(`^[a-z0-9_-]+(\.[a-z0-9_-]+)*$`)
	rapid.Check(t, func(t *rapid.T) {
		local := rapid.StringMatching(`[a-z0-9_-]{1,20}(\.[a-z0-9_-]{1,20}){0,2}`).Draw(t, "local")
		aliasAtOne, aliasAtTwo := mailbox.Alias(local+"@one.test"), mailbox.Alias(local+"@two.test")
		if aliasAtOne == aliasAtTwo {
			t.Fatalf("%s has the same alias on two domains", local)
		}
		if len(aliasAtOne) > 64 || !aliasForm.MatchString(aliasAtOne) || aliasAtOne != mailbox.Alias(local+"@one.test") {
			t.Fatalf("got the alias %q, want at most 64 characters of the form %s, and the same alias in a second call", aliasAtOne, aliasForm)
		}
	})
}

func TestAliasesOfLongAddressesAreShortAndUnique(t *testing.T) {
	alias := mailbox.Alias(strings.Repeat("a", 50) + "." + strings.Repeat("b", 13) + "@a.test")
	similarAlias := mailbox.Alias(strings.Repeat("a", 50) + "." + strings.Repeat("b", 12) + "c@a.test")
	if alias == similarAlias || len(alias) > 64 || strings.Contains(alias, ".-") {
		t.Fatalf("got the aliases %q and %q, want different ones of at most 64 characters without .-", alias, similarAlias)
	}
}

func TestSelectNewAllowsThreeMailboxes(t *testing.T) {
	threeAddresses := []string{"a@a.test", "b@a.test", "c@a.test"}
	for _, tc := range []struct {
		name        string
		existing    []string
		wanted      []string
		wantNew     int
		wantRefused bool
	}{
		{"three on an empty domain", nil, threeAddresses, 3, false},
		{"the same three again", threeAddresses, threeAddresses, 0, false},
		{"two in addition to one", threeAddresses[:1], []string{"d@a.test", "e@a.test"}, 2, false},
		{"one new in addition to two of three", threeAddresses[:2], threeAddresses, 1, false},
		{"two new in addition to two", threeAddresses[:2], []string{"d@a.test", "e@a.test"}, 0, true},
		{"a fourth mailbox", threeAddresses, []string{"d@a.test"}, 0, true},
		{"four mailboxes at once", nil, append(threeAddresses[:3:3], "d@a.test"), 0, true},
		{"three existing mailboxes of a domain with four", append(threeAddresses[:3:3], "d@a.test"), threeAddresses, 0, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			newSpecs, err := mailbox.SelectNew(tc.existing, specs(tc.wanted...), mailbox.MaxPerDomain)
			if len(newSpecs) != tc.wantNew || errors.Is(err, fault.MailboxLimitReached) != tc.wantRefused {
				t.Fatalf("got %v, %v; want %d new, refused %t", newSpecs, err, tc.wantNew, tc.wantRefused)
			}
		})
	}
}

func TestSelectNewNeverExceedsTheLimit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		address := rapid.Custom(func(t *rapid.T) string { return fmt.Sprintf("m%d@a.test", rapid.IntRange(0, 5).Draw(t, "n")) })
		drawDistinct := func(name string, atMost int) []string {
			return rapid.SliceOfNDistinct(address, 0, atMost, rapid.ID[string]).Draw(t, name)
		}
		existing, wanted := drawDistinct("existing", 3), drawDistinct("wanted", 5)
		newSpecs, err := mailbox.SelectNew(existing, specs(wanted...), 3)
		wantNew := 0
		for _, wantedAddress := range wanted {
			if !slices.Contains(existing, wantedAddress) {
				wantNew++
			}
		}
		if fits := len(existing)+wantNew <= 3 || wantNew == 0; fits != (err == nil) || err == nil && len(newSpecs) != wantNew {
			t.Fatalf("%v of %v: got %v, %v; want %d new, or an error above the limit", wanted, existing, newSpecs, err, wantNew)
		}
	})
}

func TestNextStepFollowsStageAndPlatform(t *testing.T) {
	for _, tc := range []struct {
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
		t.Run(tc.name, func(t *testing.T) {
			if got := mailbox.NextStep(tc.stage, tc.found); got != tc.want {
				t.Fatalf("got %d, want %d", got, tc.want)
			}
		})
	}
}
