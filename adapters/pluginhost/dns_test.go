// SPDX-License-Identifier: Apache-2.0

package pluginhost_test

import (
	"context"
	"errors"
	"testing"

	"github.com/tenantry/tenantry/adapters/pluginhost"
	"github.com/tenantry/tenantry/adapters/testserver"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/plugins/wire"
)

// TestDNSPlugin puts a DNS plugin into a catalog and calls it as a port: what
// the account gives decides what it says, and the operator's fields stay his.
func TestDNSPlugin(t *testing.T) {
	dir := t.TempDir()
	if e, _, err := pluginhost.Add(t.Context(), dir, testserver.Program(t, "release/plugins/dns-powerdns")); err != nil || e.Kind != "dns" {
		t.Fatalf("%+v, %v", e, err)
	}
	h, _ := host(t, pluginhost.Options{Dir: dir})
	about, err := h.Describe(t.Context(), "powerdns")
	if err != nil {
		t.Fatal(err)
	}
	account := wire.Connection{
		Settings: map[string]string{"api_url": "http://127.0.0.1:1", "allow_private": "true"},
		Secrets:  map[string]secret.Text{"api_key": secret.New(token)},
	}
	check := func(operator map[string]string) error {
		_, err := h.DNS("powerdns", func(context.Context) (wire.Connection, error) {
			return about.Join(wire.Connection{Settings: operator}, account), nil
		}).Check(within(t, hang))
		return err
	}
	if err := check(nil); !errors.Is(err, fault.InvalidRequest) {
		t.Errorf("a private host: %v", err)
	}
	if err := check(map[string]string{"allow_private": "true"}); outcome.Of(err) != outcome.Down {
		t.Errorf("with the operator's leave, nobody there: %v", err)
	}
	if _, err := h.DNS("missing", nil).Check(t.Context()); outcome.Of(err) != outcome.Down {
		t.Errorf("a plugin that is missing: %v", err)
	}
}
