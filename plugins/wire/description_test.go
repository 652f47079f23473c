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
	secretsOf := func(s string) map[string]secret.Text {
		return map[string]secret.Text{"key": secret.New(s + " key"), "proxy": secret.New(s + " proxy"), "more": secret.New(s)}
	}
	got := d.Join(
		Connection{Settings: map[string]string{"url": "operator", "unknown": "x"}, Secrets: secretsOf("operator")},
		Connection{Settings: map[string]string{"url": "account", "allow_private": "true", "unknown": "x"}, Secrets: secretsOf("account")})
	want := map[string]string{"url": "account", "server": "localhost", "allow_private": "false"}
	if diff := cmp.Diff(want, got.Settings); diff != "" {
		t.Errorf("the settings (-want +got):\n%s", diff)
	}
	if len(got.Secrets) != 2 || got.Secrets["key"].Reveal() != "account key" || got.Secrets["proxy"].Reveal() != "operator proxy" {
		t.Errorf("the connection has %d secrets, want two: the account's key and the operator's proxy", len(got.Secrets))
	}
	if account, operator := d.FieldsOf(OfAccount), d.FieldsOf(OfOperator); len(account) != 3 || len(operator) != 2 || operator[0].Name != "allow_private" {
		t.Errorf("the fields of the account are %v, want three; those of the operator are %v, want two", account, operator)
	}
}

func TestFingerprintIsUniquePerConnection(t *testing.T) {
	secretsOf := func(pairs ...string) map[string]secret.Text {
		secrets := map[string]secret.Text{}
		for i := 0; i < len(pairs); i += 2 {
			secrets[pairs[i]] = secret.New(pairs[i+1])
		}
		return secrets
	}
	indexOf := map[string]int{}
	for i, c := range []Connection{
		{},
		{Settings: map[string]string{"a": ""}},
		{Settings: map[string]string{"a": "b"}},
		{Settings: map[string]string{"ab": ""}},
		{Settings: map[string]string{"a": "b", "c": "d"}},
		{Settings: map[string]string{"a": "bcd"}},
		{Secrets: secretsOf("a", "b")},
		{Secrets: secretsOf("a", "c")},
		{Settings: map[string]string{"a": "b"}, Secrets: secretsOf("a", "b")},
	} {
		fingerprint := c.Fingerprint()
		if earlier, seen := indexOf[fingerprint]; seen {
			t.Errorf("the connections %d and %d have the same fingerprint, want different ones", earlier, i)
		}
		indexOf[fingerprint] = i
		if len(fingerprint) != 64 || strings.ToLower(fingerprint) != fingerprint {
			t.Errorf("the fingerprint is %q, want a SHA-256 in lower-case hex", fingerprint)
		}
	}
	original := Connection{Settings: map[string]string{"a": "1", "b": "2", "c": "3"}}
	reordered := Connection{Settings: map[string]string{"c": "3", "b": "2", "a": "1"}, Secrets: secretsOf()}
	if original.Fingerprint() != reordered.Fingerprint() {
		t.Error("two equal connections have different fingerprints, want the same")
	}
}
