// SPDX-License-Identifier: Apache-2.0

package access_test

import (
	"bytes"
	"crypto/rand"
	"errors"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/ident"
	"github.com/tenantry/tenantry/core/secret"
)

func TestBearerTokenRequiresExactlyOneHeader(t *testing.T) {
	for _, tc := range []struct {
		name    string
		headers []string
		want    string
		wantErr error
	}{
		{"one key", []string{"Bearer k"}, "k", nil},
		{"the scheme in mixed case", []string{"bEARER k"}, "k", nil},
		{"spaces around the scheme and the token", []string{"  Bearer   k  "}, "k", nil},
		{"spaces inside the token", []string{"Bearer a b"}, "a b", nil},
		{"no header", nil, "", fault.InvalidAuthHeader},
		{"an empty header", []string{""}, "", fault.InvalidAuthHeader},
		{"a different scheme", []string{"Basic eDp5"}, "", fault.InvalidAuthHeader},
		{"no space after Bearer", []string{"Bearerk"}, "", fault.InvalidAuthHeader},
		{"a key without the scheme", []string{"tny_live_" + keyDigits}, "", fault.InvalidAuthHeader},
		{"two headers", []string{"Bearer k", "Bearer k"}, "", fault.InvalidAuthHeader},
		{"nothing after Bearer", []string{"Bearer"}, "", fault.MissingAPIKey},
		{"only spaces after Bearer", []string{"Bearer  \t "}, "", fault.MissingAPIKey},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := access.BearerToken(tc.headers)
			if got != tc.want || !errors.Is(err, tc.wantErr) {
				t.Fatalf("got %q, %v; want %q, %v", got, err, tc.want, tc.wantErr)
			}
		})
	}
}

func TestParseKeyAcceptsOnlyThePublishedForm(t *testing.T) {
	for _, tc := range []struct {
		name, key string
		want      access.KeyForm // empty if the key is malformed
	}{
		{"a live key", "tny_live_" + keyDigits, access.Live},
		{"a trial key", "tny_trial_" + keyDigits, access.Trial},
		{"a different prefix", "abc_live_" + keyDigits, ""},
		{"no prefix", "live_" + keyDigits, ""},
		{"an unknown form", "tny_test_" + keyDigits, ""},
		{"no form", "tny_" + keyDigits, ""},
		{"upper-case hex", "tny_live_" + strings.ToUpper(keyDigits), ""},
		{"upper-case form", "tny_LIVE_" + keyDigits, ""},
		{"47 digits", "tny_live_" + keyDigits[1:], ""},
		{"49 digits", "tny_live_" + keyDigits + "0", ""},
		{"a digit that is not hexadecimal", "tny_live_" + keyDigits[1:] + "g", ""},
		{"a newline after the key", "tny_live_" + keyDigits + "\n", ""},
		{"a NUL as the last digit", "tny_live_" + keyDigits[1:] + "\x00", ""},
		{"a megabyte", strings.Repeat("a", 1<<20), ""},
		{"an empty key", "", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := access.ParseKey("tny", secret.New(tc.key))
			if got != tc.want || (err != nil) != (tc.want == "") {
				t.Fatalf("got %q, %v; want %q", got, err, tc.want)
			}
			if err != nil && err.Error() != access.UnknownKey().Error() {
				t.Fatalf("%v differs from the answer for an unknown key", err)
			}
		})
	}
}

func TestNewKeysParse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		prefix := rapid.StringMatching(`[a-z]{1,8}`).Draw(t, "prefix")
		form := rapid.SampledFrom([]access.KeyForm{access.Live, access.Trial}).Draw(t, "form")
		random := rapid.SliceOfN(rapid.Byte(), 34, 34).Draw(t, "random") // of the key and of its id
		newKey := func() secret.Text {
			_, text, err := access.NewKey(bytes.NewReader(random), prefix, form, "acc", "", time.Unix(0, 0))
			if err != nil {
				t.Fatal(err)
			}
			return text
		}
		key := newKey()
		if got, err := access.ParseKey(prefix, key); err != nil || got != form {
			t.Fatalf("a new key has the form %q, %v, want %s", got, err, form)
		}
		if hint := access.KeyHint(key); len(hint) != 4 || !strings.HasSuffix(key.Reveal(), hint) {
			t.Fatalf("the hint is %q, want the last 4 characters of the key", hint)
		}
		random[0]++
		if access.HashKey(key) == access.HashKey(newKey()) {
			t.Fatal("two different keys have the same hash")
		}
	})
}

func TestNewKeyReturnsTheKeyToStore(t *testing.T) {
	now := time.Date(2026, 11, 2, 9, 0, 0, 0, time.UTC)
	key, text, err := access.NewKey(rand.Reader, "tny", access.Trial, "acc", "ci", now)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := ident.Parse(key.ID); !ok || key.Hash != access.HashKey(text) || !strings.HasSuffix(text.Reveal(), key.Hint) ||
		key.Account != "acc" || key.Form != access.Trial || key.Name != "ci" || !key.CreatedAt.Equal(now) {
		t.Fatalf("got the key %+v, want a trial key of the account acc with the name ci, and the hash and the hint of its text", key)
	}
	if _, _, err := access.NewKey(strings.NewReader("short"), "tny", access.Live, "acc", "", now); err == nil {
		t.Error("with too few random bytes: got no error")
	}
	if _, _, err := access.NewKey(rand.Reader, "tny", "gold", "acc", "", now); !errors.Is(err, fault.InvalidRequest) {
		t.Errorf("an unknown form: got %v, want invalid_request", err)
	}
}

func TestARevokedKeyIsNotActive(t *testing.T) {
	if got := (access.Key{}).Status(); got != access.StatusActive {
		t.Errorf("a key that was not revoked: got %s, want %s", got, access.StatusActive)
	}
	if got := (access.Key{RevokedAt: time.Unix(1, 0)}).Status(); got != access.StatusRevoked {
		t.Errorf("a revoked key: got %s, want %s", got, access.StatusRevoked)
	}
}
