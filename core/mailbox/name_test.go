// SPDX-License-Identifier: Apache-2.0

package mailbox_test

import (
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/core/secret"
)

func TestDisplayName(t *testing.T) {
	for _, tt := range []struct{ name, raw, want string }{
		{"plain", "Anna Keller", "Anna Keller"},
		{"spaces around", " \u00a0Anna\t", "Anna"},
		{"other scripts", "안나 Ωμέγα Жанна", "안나 Ωμέγα Жанна"},
		{"emoji with joiners", "👩\u200d💻", "👩\u200d💻"},
		{"data, not script", `"; Remove-Mailbox $(x) ` + "`y`" + ` ') or 1 eq 1 *)( {{7*7}} <script>=cmd()`, `"; Remove-Mailbox $(x) ` + "`y`" + ` ') or 1 eq 1 *)( {{7*7}} <script>=cmd()`},
		{"256 characters", strings.Repeat("ä", 256), strings.Repeat("ä", 256)},
		{"a mark alone", "\u0308a", "\u0308a"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := mailbox.DisplayName(tt.raw, "body.display_name")
			if err != nil || got != tt.want {
				t.Fatalf("got %q, %v; want %q", got, err, tt.want)
			}
		})
	}
}

func TestDisplayNameRefused(t *testing.T) {
	for _, tt := range []struct{ name, raw string }{
		{"empty", ""},
		{"spaces", " \t\u00a0 "},
		{"only joiners", "\u200d\u200b\ufeff"},
		{"257 characters", strings.Repeat("a", 257)},
		{"64 KiB", strings.Repeat("a", 1<<16)},
		{"line break", "Anna\r\nBcc: x"},
		{"NUL", "An\x00na"},
		{"C1 control", "An\u0085na"},
		{"line separator", "An\u2028na"},
		{"turned direction", "Anna \u202etxt.exe"},
		{"isolate", "Anna\u2066"},
		{"no UTF-8", "An\xffna"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := mailbox.DisplayName(tt.raw, "body.display_name")
			if !errors.Is(err, fault.InvalidRequest) || fault.Of(err).Fields[0].Location != "body.display_name" {
				t.Fatalf("got %v", err)
			}
			_, err = mailbox.CheckNames([]mailbox.Spec{{DisplayName: "Anna"}, {DisplayName: tt.raw}})
			if !errors.Is(err, fault.InvalidRequest) || fault.Of(err).Fields[0].Location != "body.mailboxes[1].name" {
				t.Fatalf("got %v", err)
			}
		})
	}
}

func TestCheckNames(t *testing.T) {
	got, err := mailbox.CheckNames([]mailbox.Spec{{DisplayName: " Zoë ", Address: "X@a.test"}})
	if err != nil || got[0] != (mailbox.Spec{DisplayName: "Zoë", Address: "X@a.test"}) {
		t.Fatalf("got %q, %v", got, err)
	}
}

func TestAcceptedNamesAreCanonical(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name, err := mailbox.DisplayName(rapid.String().Draw(t, "raw"), "")
		if err != nil {
			return
		}
		if again, err := mailbox.DisplayName(name, ""); err != nil || again != name {
			t.Fatalf("%q became %q, %v", name, again, err)
		}
	})
}

func TestPassword(t *testing.T) {
	for _, tt := range []struct {
		name, password string
		ok             bool
	}{
		{"three classes", "Abcdefg1", true},
		{"three classes with an other one", "abcdef1!", true},
		{"spaces count as other", "abc DEF gh", true},
		{"letters of other alphabets have their case", "passwörT", false},
		{"upper case of another alphabet", "passÖrd1", true},
		{"lower case of another alphabet", "ПАРОЛь12", true},
		{"digits of another script", "Password٣", true},
		{"letters without case count as other", "Passw密码密", true},
		{"256 characters", strings.Repeat("aB3!", 64), true},
		{"characters, not bytes, count", "äöüABc1", false},
		{"7 characters", "Abcde1!", false},
		{"257 characters", strings.Repeat("aB3!", 64) + "a", false},
		{"two classes", "abcdefgh1", false},
		{"one class", "abcdefghij", false},
		{"empty", "", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := mailbox.CheckPassword(secret.New(tt.password))
			if (err == nil) != tt.ok || err != nil && !errors.Is(err, fault.WeakPassword) {
				t.Fatalf("got %v", err)
			}
			if err != nil && tt.password != "" && strings.Contains(err.Error()+fault.Of(err).Fields[0].Message, tt.password) {
				t.Fatal("the refusal repeats the password")
			}
		})
	}
}
