// SPDX-License-Identifier: Apache-2.0

package domains

import (
	"context"
	"reflect"
	"testing"

	"github.com/tenantry/tenantry/adapters/fake"
	"github.com/tenantry/tenantry/app/dnsconnections"
	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/ports"
)

// worldServers are those to which the fake DNS delegates every zone.
var worldServers = []string{"ns1.fake.test", "ns2.fake.test"}

// cloud is found by its servers' names, own only by a connection.
var (
	cloud = dns.Provider{ID: "cloudflare", Title: "Cloudflare", NameServers: []string{"*.fake.test"}}
	own   = dns.Provider{ID: "powerdns", Title: "PowerDNS"}
)

// serves makes an account at a provider that holds the zone, served by the
// servers that the world asks.
func serves(sets ...dns.RRSet) *fake.DNSProvider {
	p := &fake.DNSProvider{}
	p.AddZone(zone, sets...)
	p.Put(zone, dns.RRSet{Name: zone, Type: dns.NS, Values: worldServers})
	return p
}

// connect gives the account a connection by which it reaches at. The token is
// taken when it is made, whatever becomes of it later.
func (h *house) connect(t *testing.T, provider, token string, at ports.DNSProvider) {
	t.Helper()
	h.providers.Hold(provider, token, &fake.DNSProvider{})
	_, err := h.Connections.Add(t.Context(), dnsconnections.New{Account: h.acc.ID, Provider: provider,
		Credential: secret.Credential{Secrets: map[string]secret.Text{"token": secret.New(token)}}})
	must(t, err)
	h.providers.Hold(provider, token, at)
}

func (h *house) survey(t *testing.T) Survey {
	t.Helper()
	v, err := h.Survey(t.Context(), h.acc.ID, h.stored(t, zone).ID)
	must(t, err)
	if h.providers.Writes() != 0 {
		t.Fatal("something was written")
	}
	return v
}

// asked counts the calls of the mail platform.
func (h *house) asked() (calls int) {
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

// broken is an account at a provider of which some calls end badly.
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
