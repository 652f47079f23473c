// SPDX-License-Identifier: Apache-2.0

package mailbox_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/core/secret"
)

var local64 = strings.Repeat("a", 64)

func specs(addresses ...string) []mailbox.Spec {
	list := make([]mailbox.Spec, len(addresses))
	for i, a := range addresses {
		list[i] = mailbox.Spec{DisplayName: "Anna", Address: a}
	}
	return list
}

func TestAcceptedAddressesAreNormalized(t *testing.T) {
	for _, tc := range []struct{ name, domain, raw, want string }{
		{"plain", "a.test", "anna.k@a.test", "anna.k@a.test"},
		{"any case", "a.test", "Anna@A.TEST", "anna@a.test"},
		{"64 characters", "a.test", local64 + "@a.test", local64 + "@a.test"},
		{"the domain as U-label", "xn--mller-kva.example", "anna@müller.example", "anna@xn--mller-kva.example"},
		{"reserved names are allowed", "a.test", "postmaster@a.test", "postmaster@a.test"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := mailbox.CheckAddresses(tc.domain, specs(tc.raw))
			if err != nil || got[0].Address != tc.want || got[0].DisplayName != "Anna" {
				t.Fatalf("got %v, %v; want %s", got, err, tc.want)
			}
		})
	}
}

func TestUnsafeAddressesAreRefused(t *testing.T) {
	for _, raw := range []string{
		"", "@a.test", "anna", "anna@", "anna@b.test", "anna@mail.a.test", "anna@test", "anna@a.test.", "anna@@a.test",
		"anna@a.test@a.test", local64 + "a@a.test", `"anna k"@a.test`, ".anna@a.test", "anna.@a.test", "an..na@a.test",
		"anna+tag@a.test", "änna@a.test", "Evil <anna@a.test>", "anna(x)@a.test", "anna k@a.test", " anna@a.test",
		"anna@a.test\r\nBcc: x@b.test", "anna\x00@a.test", "anna'k@a.test", "an\u200dna@a.test", "anna\uff20a.test",
	} {
		t.Run(raw, func(t *testing.T) {
			_, err := mailbox.CheckAddresses("a.test", specs("ok@a.test", raw))
			if !errors.Is(err, fault.InvalidMailboxEmail) {
				t.Fatalf("got %v, want invalid_mailbox_email", err)
			}
			if fields := fault.ErrorOf(err).Fields; len(fields) != 1 || fields[0].Name != "mailboxes[1].email" {
				t.Fatalf("the error has the fields %v, want only mailboxes[1].email", fields)
			}
		})
	}
}

func TestDuplicateAddressesAreRefused(t *testing.T) {
	_, err := mailbox.CheckAddresses("a.test", specs("anna@a.test", "ben@a.test", "ANNA@a.test"))
	if !errors.Is(err, fault.DuplicateMailboxEmail) {
		t.Fatalf("got %v, want duplicate_mailbox_email", err)
	}
	if fields := fault.ErrorOf(err).Fields; len(fields) != 1 || fields[0].Name != "mailboxes[2].email" {
		t.Fatalf("the error has the fields %v, want only mailboxes[2].email", fields)
	}
	if _, err := mailbox.CheckAddresses("a.test", specs("x", "x")); !errors.Is(err, fault.InvalidMailboxEmail) {
		t.Fatalf("two equal invalid addresses: got %v, want invalid_mailbox_email", err)
	}
}

func TestErrorsListAtMostTenFields(t *testing.T) {
	_, err := mailbox.CheckAddresses("a.test", specs(make([]string, 4000)...))
	if n := len(fault.ErrorOf(err).Fields); n != 10 {
		t.Fatalf("CheckAddresses lists %d fields, want 10", n)
	}
	_, err = mailbox.CheckNames(make([]mailbox.Spec, 4000))
	if n := len(fault.ErrorOf(err).Fields); n != 10 {
		t.Fatalf("CheckNames lists %d fields, want 10", n)
	}
}

func TestAcceptedAddressesAreCanonical(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		raw := rapid.OneOf(rapid.String(), rapid.StringMatching(`[A-Za-z0-9._-]{1,70}`)).Draw(t, "local") + "@a.test"
		got, err := mailbox.CheckAddresses("a.test", specs(raw))
		if err != nil {
			return
		}
		rechecked, err := mailbox.CheckAddresses("a.test", got)
		if diff := cmp.Diff(got, rechecked); err != nil || diff != "" {
			t.Fatalf("a second check changes the address: %v\n%s", err, diff)
		}
	})
}

func TestDisplayNamesAreTrimmedAndChecked(t *testing.T) {
	for _, tc := range []struct{ name, raw, want string }{
		{"plain", "Anna Keller", "Anna Keller"},
		{"spaces around", " \u00a0Anna\t", "Anna"},
		{"other scripts", "안나 Ωμέγα Жанна", "안나 Ωμέγα Жанна"},
		{"emoji with joiners", "👩\u200d💻", "👩\u200d💻"},
		{"text that looks like code", `"; Remove-Mailbox $(x) ` + "`y`" + ` ') or 1 eq 1 *)( {{7*7}} <script>=cmd()`, `"; Remove-Mailbox $(x) ` + "`y`" + ` ') or 1 eq 1 *)( {{7*7}} <script>=cmd()`},
		{"256 characters", strings.Repeat("ä", 256), strings.Repeat("ä", 256)},
		{"a combining mark first", "\u0308a", "\u0308a"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := mailbox.DisplayName(tc.raw, "display_name")
			if err != nil || got != tc.want {
				t.Fatalf("got %q, %v; want %q", got, err, tc.want)
			}
		})
	}
}

func TestUnsafeDisplayNamesAreRefused(t *testing.T) {
	for _, tc := range []struct{ name, raw string }{
		{"empty", ""},
		{"only spaces", " \t\u00a0 "},
		{"only joiners", "\u200d\u200b\ufeff"},
		{"257 characters", strings.Repeat("a", 257)},
		{"64 KiB", strings.Repeat("a", 1<<16)},
		{"line break", "Anna\r\nBcc: x"},
		{"NUL", "An\x00na"},
		{"C1 control", "An\u0085na"},
		{"line separator", "An\u2028na"},
		{"a direction override", "Anna \u202etxt.exe"},
		{"a direction isolate", "Anna\u2066"},
		{"invalid UTF-8", "An\xffna"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := mailbox.DisplayName(tc.raw, "display_name")
			if !errors.Is(err, fault.InvalidRequest) || fault.ErrorOf(err).Fields[0].Name != "display_name" {
				t.Fatalf("DisplayName: got %v, want invalid_request", err)
			}
			_, err = mailbox.CheckNames([]mailbox.Spec{{DisplayName: "Anna"}, {DisplayName: tc.raw}})
			if !errors.Is(err, fault.InvalidRequest) || fault.ErrorOf(err).Fields[0].Name != "mailboxes[1].name" {
				t.Fatalf("CheckNames: got %v, want invalid_request", err)
			}
		})
	}
}

func TestCheckNamesTrimsDisplayNames(t *testing.T) {
	got, err := mailbox.CheckNames([]mailbox.Spec{{DisplayName: " Zoë ", Address: "X@a.test"}})
	if err != nil || got[0] != (mailbox.Spec{DisplayName: "Zoë", Address: "X@a.test"}) {
		t.Fatalf("got %q, %v; want the name without spaces around it", got, err)
	}
}

func TestAcceptedNamesAreCanonical(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name, err := mailbox.DisplayName(rapid.String().Draw(t, "raw"), "")
		if err != nil {
			return
		}
		if rechecked, err := mailbox.DisplayName(name, ""); err != nil || rechecked != name {
			t.Fatalf("%q is not canonical: a second check returns %q, %v", name, rechecked, err)
		}
	})
}

func TestPasswordsNeedThreeClassesOfCharacters(t *testing.T) {
	for _, tc := range []struct {
		name, password string
		valid          bool
	}{
		{"three classes", "Abcdefg1", true},
		{"three classes, one of them neither letters nor digits", "abcdef1!", true},
		{"spaces count as neither letters nor digits", "abc DEF gh", true},
		{"letters of other alphabets have a case", "passwörT", false},
		{"upper case of another alphabet", "passÖrd1", true},
		{"lower case of another alphabet", "ПАРОЛь12", true},
		{"digits of another script", "Password٣", true},
		{"letters without case count as neither upper nor lower case", "Passw密码密", true},
		{"256 characters", strings.Repeat("aB3!", 64), true},
		{"characters, not bytes, count", "äöüABc1", false},
		{"7 characters", "Abcde1!", false},
		{"257 characters", strings.Repeat("aB3!", 64) + "a", false},
		{"two classes", "abcdefgh1", false},
		{"one class", "abcdefghij", false},
		{"empty", "", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := mailbox.CheckPassword(secret.New(tc.password))
			if (err == nil) != tc.valid || err != nil && !errors.Is(err, fault.WeakPassword) {
				t.Fatalf("got %v, want valid %t", err, tc.valid)
			}
			if err != nil && tc.password != "" && strings.Contains(err.Error()+fault.ErrorOf(err).Fields[0].Message, tc.password) {
				t.Fatal("the refusal repeats the password")
			}
		})
	}
}
