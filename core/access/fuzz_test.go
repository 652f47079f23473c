// SPDX-License-Identifier: Apache-2.0

package access_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/secret"
)

var keyForm = regexp.MustCompile(`^tny_(live|trial)_[0-9a-f]{48}$`)

// FuzzParseKey checks that ParseKey accepts exactly the published form.
func FuzzParseKey(f *testing.F) {
	for _, seed := range []string{"", "tny", "tny_live_", "tny_live_" + strings.Repeat("0", 48), "tny_trial_" + strings.Repeat("f", 48), "tny_live_" + strings.Repeat("F", 48), "tny__" + strings.Repeat("0", 48), "x_live_\x00"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		form, err := access.ParseKey("tny", secret.New(raw))
		if wellFormed := keyForm.MatchString(raw); wellFormed != (err == nil) {
			t.Errorf("ParseKey(%q): got %q, %v; want success %t", raw, form, err, wellFormed)
		}
		// A short text can be a part of the error by chance.
		if err != nil && len(raw) > 30 && strings.Contains(err.Error(), raw) {
			t.Errorf("the error %v repeats the key %q", err, raw)
		}
	})
}

// FuzzBearerToken checks that a token is the end of the header, without blanks around the token,
// and that two headers are refused.
func FuzzBearerToken(f *testing.F) {
	for _, seed := range []string{"", "Bearer", "Bearer x", "bearer  x ", "Basic x", "Bearer\tx", "Bearer x y", "BEARER \x00"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, header string) {
		token, err := access.BearerToken([]string{header})
		if err == nil && (token == "" || strings.Trim(token, " \t") != token || !strings.HasSuffix(strings.TrimRight(header, " \t"), token)) {
			t.Errorf("the token of %q is %q, want the end of the header without blanks", header, token)
		}
		if _, err := access.BearerToken([]string{header, header}); err == nil {
			t.Errorf("two headers %q: got no error", header)
		}
	})
}

// FuzzCheckEmail checks that an accepted address contains an @, no line break and no NUL.
func FuzzCheckEmail(f *testing.F) {
	for _, seed := range []string{"", "a@b.example", "a b@c.example", "a@b@c.example", "a@b.example\r\nBcc: x@y.example", "ä@b.example", "<a@b.example>"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, email string) {
		if access.CheckEmail(email) == nil && (!strings.Contains(email, "@") || strings.ContainsAny(email, "\r\n\x00")) {
			t.Errorf("%q: got no error", email)
		}
	})
}
