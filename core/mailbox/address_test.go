// SPDX-License-Identifier: Apache-2.0

package mailbox_test

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/mailbox"
)

var local64 = strings.Repeat("a", 64)

func specs(addresses ...string) []mailbox.Spec {
	list := make([]mailbox.Spec, len(addresses))
	for i, a := range addresses {
		list[i] = mailbox.Spec{DisplayName: "Anna", Address: a}
	}
	return list
}

func TestAddresses(t *testing.T) {
	for _, tt := range []struct{ name, domain, raw, want string }{
		{"plain", "a.test", "anna.k@a.test", "anna.k@a.test"},
		{"any case", "a.test", "Anna@A.TEST", "anna@a.test"},
		{"64 characters", "a.test", local64 + "@a.test", local64 + "@a.test"},
		{"the domain as U-label", "xn--mller-kva.example", "anna@müller.example", "anna@xn--mller-kva.example"},
		{"reserved names are names", "a.test", "postmaster@a.test", "postmaster@a.test"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := mailbox.CheckAddresses(tt.domain, specs(tt.raw))
			if err != nil || got[0].Address != tt.want || got[0].DisplayName != "Anna" {
				t.Fatalf("got %v, %v; want %s", got, err, tt.want)
			}
		})
	}
}

func TestAddressesRefused(t *testing.T) {
	for _, raw := range []string{
		"", "@a.test", "anna", "anna@", "anna@b.test", "anna@mail.a.test", "anna@test", "anna@a.test.", "anna@@a.test",
		"anna@a.test@a.test", local64 + "a@a.test", `"anna k"@a.test`, ".anna@a.test", "anna.@a.test", "an..na@a.test",
		"anna+tag@a.test", "änna@a.test", "Evil <anna@a.test>", "anna(x)@a.test", "anna k@a.test", " anna@a.test",
		"anna@a.test\r\nBcc: x@b.test", "anna\x00@a.test", "anna'k@a.test", "an\u200dna@a.test", "anna\uff20a.test",
	} {
		t.Run(raw, func(t *testing.T) {
			_, err := mailbox.CheckAddresses("a.test", specs("ok@a.test", raw))
			if !errors.Is(err, fault.InvalidMailboxEmail) {
				t.Fatalf("got %v", err)
			}
			if f := fault.Of(err).Fields; len(f) != 1 || f[0].Location != "body.mailboxes[1].email" {
				t.Fatalf("fields %v", f)
			}
		})
	}
}

func TestAddressesTwice(t *testing.T) {
	_, err := mailbox.CheckAddresses("a.test", specs("anna@a.test", "ben@a.test", "ANNA@a.test"))
	if !errors.Is(err, fault.DuplicateMailboxEmail) {
		t.Fatalf("got %v", err)
	}
	if f := fault.Of(err).Fields; len(f) != 1 || f[0].Location != "body.mailboxes[2].email" {
		t.Fatalf("fields %v", f)
	}
	if _, err := mailbox.CheckAddresses("a.test", specs("x", "x")); !errors.Is(err, fault.InvalidMailboxEmail) {
		t.Fatalf("two bad ones are %v", err)
	}
}

func TestTheAnswerToManyBadOnesIsShort(t *testing.T) {
	_, err := mailbox.CheckAddresses("a.test", specs(make([]string, 4000)...))
	if n := len(fault.Of(err).Fields); n != 10 {
		t.Fatalf("%d fields", n)
	}
	_, err = mailbox.CheckNames(make([]mailbox.Spec, 4000))
	if n := len(fault.Of(err).Fields); n != 10 {
		t.Fatalf("%d fields", n)
	}
}

func TestCheckedAddressesAreCanonical(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		raw := rapid.OneOf(rapid.String(), rapid.StringMatching(`[A-Za-z0-9._-]{1,70}`)).Draw(t, "local") + "@a.test"
		got, err := mailbox.CheckAddresses("a.test", specs(raw))
		if err != nil {
			return
		}
		again, err := mailbox.CheckAddresses("a.test", got)
		if diff := cmp.Diff(got, again); err != nil || diff != "" {
			t.Fatalf("not canonical: %v %s", err, diff)
		}
	})
}

func TestAlias(t *testing.T) {
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

func TestAliasOfALongAddress(t *testing.T) {
	a := mailbox.Alias(strings.Repeat("a", 50) + "." + strings.Repeat("b", 13) + "@a.test")
	b := mailbox.Alias(strings.Repeat("a", 50) + "." + strings.Repeat("b", 12) + "c@a.test")
	if a == b || len(a) > 64 || strings.Contains(a, ".-") {
		t.Fatalf("%q and %q", a, b)
	}
}

func TestAdmit(t *testing.T) {
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
		{"two beside one", held[:1], []string{"d@a.test", "e@a.test"}, 2, false},
		{"one new beside two of three", held[:2], held, 1, false},
		{"two new beside two", held[:2], []string{"d@a.test", "e@a.test"}, 0, true},
		{"a fourth", held, []string{"d@a.test"}, 0, true},
		{"four at once", nil, append(held[:3:3], "d@a.test"), 0, true},
		{"known ones of a domain with too many", append(held[:3:3], "d@a.test"), held, 0, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			fresh, err := mailbox.Admit(tt.existing, specs(tt.wanted...), mailbox.MaxPerDomain)
			if len(fresh) != tt.fresh || errors.Is(err, fault.MailboxLimitReached) != tt.refused {
				t.Fatalf("got %v, %v", fresh, err)
			}
		})
	}
}

func TestAdmitNeverPassesTheCap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		address := rapid.Custom(func(t *rapid.T) string { return fmt.Sprintf("m%d@a.test", rapid.IntRange(0, 5).Draw(t, "n")) })
		distinct := func(name string, most int) []string {
			return rapid.SliceOfNDistinct(address, 0, most, rapid.ID[string]).Draw(t, name)
		}
		existing, wanted := distinct("existing", 3), distinct("wanted", 5)
		fresh, err := mailbox.Admit(existing, specs(wanted...), 3)
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

func TestNextStep(t *testing.T) {
	for _, tt := range []struct {
		name  string
		stage mailbox.Stage
		found bool
		want  mailbox.Step
	}{
		{"a place, nothing there", mailbox.Reserved, false, mailbox.Make},
		{"a place, someone else's is there", mailbox.Reserved, true, mailbox.Keep},
		{"we asked, nothing there", mailbox.Creating, false, mailbox.Make},
		{"we asked, it is there", mailbox.Creating, true, mailbox.Complete},
		{"made but not opened", mailbox.Created, true, mailbox.Complete},
		{"made and gone again", mailbox.Created, false, mailbox.Make},
		{"done", mailbox.Ready, true, mailbox.Keep},
		{"done, not looked for", mailbox.Ready, false, mailbox.Keep},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := mailbox.NextStep(tt.stage, tt.found); got != tt.want {
				t.Fatalf("got %d, want %d", got, tt.want)
			}
		})
	}
}

func TestListed(t *testing.T) {
	for stage, want := range map[mailbox.Stage]bool{
		mailbox.Reserved: false, mailbox.Creating: false, mailbox.Created: true, mailbox.Ready: true,
	} {
		if stage.Listed() != want {
			t.Errorf("%s listed: %v", stage, !want)
		}
	}
}
