// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tenantry/tenantry/core/secret"
)

// An account that gives a field of the operator's, such as the one that allows
// private addresses, gains nothing.
func TestJoinKeepsOperatorAndAccountApart(t *testing.T) {
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
		t.Error(diff)
	}
	if len(got.Secrets) != 2 || got.Secrets["key"].Reveal() != "account key" || got.Secrets["proxy"].Reveal() != "operator proxy" {
		t.Errorf("%d secrets", len(got.Secrets))
	}
	if account, operator := d.FieldsOf(true), d.FieldsOf(false); len(account) != 3 || len(operator) != 2 || operator[0].Name != "allow_private" {
		t.Errorf("account %v, operator %v", account, operator)
	}
}
