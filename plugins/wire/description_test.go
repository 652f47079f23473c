// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tenantry/tenantry/core/secret"
)

// TestAnAccountCannotSetOperatorFields checks that an account's value for an operator's field, such
// as allow_private, is ignored.
func TestAnAccountCannotSetOperatorFields(t *testing.T) {
	d := Description{Fields: []Field{
		{Name: "url", Account: true}, {Name: "key", Account: true, Secret: true}, {Name: "server", Account: true, Default: "localhost"},
		{Name: "allow_private", Default: "false"}, {Name: "proxy", Secret: true},
	}}
	text := func(s string) map[string]secret.Text {
		return map[string]secret.Text{"key": secret.New(s + " key"), "proxy": secret.New(s + " proxy"), "more": secret.New(s)}
	}
	got := d.Join(
		Connection{Settings: map[string]string{"url": "operator", "unknown": "x"}, Secrets: text("operator")},
		Connection{Settings: map[string]string{"url": "account", "allow_private": "true", "unknown": "x"}, Secrets: text("account")})
	want := map[string]string{"url": "account", "server": "localhost", "allow_private": "false"}
	if diff := cmp.Diff(want, got.Settings); diff != "" {
		t.Errorf("the settings (-want +got):\n%s", diff)
	}
	if len(got.Secrets) != 2 || got.Secrets["key"].Reveal() != "account key" || got.Secrets["proxy"].Reveal() != "operator proxy" {
		t.Errorf("there are %d secrets, want the account's key and the operator's proxy", len(got.Secrets))
	}
	if account, operator := d.FieldsOf(OfAccount), d.FieldsOf(OfOperator); len(account) != 3 || len(operator) != 2 || operator[0].Name != "allow_private" {
		t.Errorf("the fields of the account are %v, want three; those of the operator are %v, want two", account, operator)
	}
}

func TestFingerprintIsUniquePerConnection(t *testing.T) {
	text := func(kv ...string) map[string]secret.Text {
		m := map[string]secret.Text{}
		for i := 0; i < len(kv); i += 2 {
			m[kv[i]] = secret.New(kv[i+1])
		}
		return m
	}
	indexOf := map[string]int{}
	for i, c := range []Connection{
		{},
		{Settings: map[string]string{"a": ""}},
		{Settings: map[string]string{"a": "b"}},
		{Settings: map[string]string{"ab": ""}},
		{Settings: map[string]string{"a": "b", "c": "d"}},
		{Settings: map[string]string{"a": "bcd"}},
		{Secrets: text("a", "b")},
		{Secrets: text("a", "c")},
		{Settings: map[string]string{"a": "b"}, Secrets: text("a", "b")},
	} {
		fingerprint := c.Fingerprint()
		if other, ok := indexOf[fingerprint]; ok {
			t.Errorf("connections %d and %d have the same fingerprint", other, i)
		}
		indexOf[fingerprint] = i
		if len(fingerprint) != 64 || strings.ToLower(fingerprint) != fingerprint {
			t.Errorf("%q is not a SHA-256 in hex", fingerprint)
		}
	}
	connection := Connection{Settings: map[string]string{"a": "1", "b": "2", "c": "3"}}
	reordered := Connection{Settings: map[string]string{"c": "3", "b": "2", "a": "1"}, Secrets: text()}
	if connection.Fingerprint() != reordered.Fingerprint() {
		t.Error("equal connections have different fingerprints")
	}
}
