// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"context"

	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/ports"
)

// DNS measures the calls of one DNS provider, whichever credential they use.
type DNS struct{ calls calls }

// NewDNS prepares the measurement of one DNS provider.
func NewDNS(o CallOptions) (*DNS, error) {
	c, err := newCalls(o)
	if err != nil {
		return nil, err
	}
	return &DNS{c}, nil
}

// Measure wraps a DNS provider, as Mail does a mail platform.
func (d *DNS) Measure(next ports.DNSProvider) ports.DNSProvider {
	return measuredDNS{next: next, calls: d.calls}
}

type measuredDNS struct {
	next  ports.DNSProvider
	calls calls
}

func (m measuredDNS) Check(ctx context.Context) (int, error) {
	return measure(ctx, m.calls, "check", nil, m.next.Check)
}

func (m measuredDNS) Zone(ctx context.Context, name string) (dns.Zone, error) {
	return measure(ctx, m.calls, "zone", m.calls.about(aboutZone, name), func(ctx context.Context) (dns.Zone, error) {
		return m.next.Zone(ctx, name)
	})
}

func (m measuredDNS) Records(ctx context.Context, zone dns.Zone) ([]dns.RRSet, error) {
	return measure(ctx, m.calls, "records", m.calls.about(aboutZone, zone.Name), func(ctx context.Context) ([]dns.RRSet, error) {
		return m.next.Records(ctx, zone)
	})
}

func (m measuredDNS) Apply(ctx context.Context, zone dns.Zone, changes []dns.Change) ([]dns.RRSet, error) {
	return measure(ctx, m.calls, "apply", m.calls.about(aboutZone, zone.Name), func(ctx context.Context) ([]dns.RRSet, error) {
		return m.next.Apply(ctx, zone, changes)
	})
}
