// SPDX-License-Identifier: Apache-2.0

package domains

import (
	"context"
	"reflect"
	"testing"

	"github.com/tenantry/tenantry/adapters/fake"
	"github.com/tenantry/tenantry/app/dnsconnections"
	"github.com/tenantry/tenantry/app/domainsteps"
	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/ports"
)

// fakeServers are the servers to which the fake DNS delegates every zone.
var fakeServers = []string{"ns1.fake.test", "ns2.fake.test"}

// The provider "cloud" is detected from its servers' names, the provider "own" only through a
// connection.
var (
	cloud = dns.Provider{ID: "cloudflare", Title: "Cloudflare", NameServers: []string{"*.fake.test"}}
	own   = dns.Provider{ID: "powerdns", Title: "PowerDNS"}
)

// serves returns a provider account whose zone is served by the delegated servers.
func serves(sets ...dns.RRSet) *fake.DNSProvider {
	p := &fake.DNSProvider{}
	p.AddZone(zone, sets...)
	p.Put(zone, dns.RRSet{Name: zone, Type: dns.NS, Values: fakeServers})
	return p
}

// connect adds a connection of the account to the provider. The token is valid when the connection
// is added; later calls go to at.
func (h *fixture) connect(t *testing.T, provider, token string, at ports.DNSProvider) {
	t.Helper()
	h.providers.AddAccount(provider, token, &fake.DNSProvider{})
	_, err := h.Connections.Add(t.Context(), dnsconnections.NewConnection{Account: h.acc.ID, Provider: provider,
		Credential: secret.Credential{Secrets: map[string]secret.Text{"token": secret.New(token)}}})
	must(t, err)
	h.providers.AddAccount(provider, token, at)
}

func (h *fixture) survey(t *testing.T) domainsteps.Survey {
	t.Helper()
	v, err := h.Survey(t.Context(), h.acc.ID, h.stored(t).ID)
	must(t, err)
	if h.providers.Writes() != 0 {
		t.Fatal("something was written")
	}
	return v
}

// platformCalls counts the calls of the mail platform.
func (h *fixture) platformCalls() (calls int) {
	for method := range reflect.TypeFor[ports.MailTenant]().Methods() {
		calls += h.fake.Calls(method.Name)
	}
	return calls
}

func actions(p dns.Plan) map[dns.Purpose]string {
	out := map[dns.Purpose]string{}
	for _, i := range p.Items {
		out[i.Purpose] = string(i.Action) + " " + string(i.Reason)
	}
	return out
}

// broken is a provider account with calls that fail.
type broken struct {
	ports.DNSProvider
	zone, records error
}

func (b broken) Zone(ctx context.Context, name string) (dns.Zone, error) {
	if b.zone != nil {
		return dns.Zone{}, b.zone
	}
	return b.DNSProvider.Zone(ctx, name)
}

func (b broken) Records(ctx context.Context, z dns.Zone) ([]dns.RRSet, error) {
	if b.records != nil {
		return nil, b.records
	}
	return b.DNSProvider.Records(ctx, z)
}
