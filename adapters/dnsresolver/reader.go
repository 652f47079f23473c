// SPDX-License-Identifier: Apache-2.0

// Package dnsresolver reads a domain's mail records from the authoritative
// servers of its zone, all of them, without a cache in between.
package dnsresolver

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/idna"

	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/ports"
)

// Options configures a Reader. The zero value reads the public DNS through
// the resolvers of /etc/resolv.conf.
type Options struct {
	// Resolvers are recursive resolvers as address or address:port. They
	// find the zone cut and its name servers, nothing else is believed of
	// them but targets of aliases.
	Resolvers []string
	// Recursive asks the resolvers for everything, for machines that reach no
	// other servers. What they say may be old, so no read is reliable then.
	Recursive bool
	// Port is the port of authoritative servers; 53 unless set.
	Port int
	// AllowPrivate lets authoritative servers have addresses that are not
	// public unicast. Only sandboxes and tests set it: those addresses come
	// from the owners of domains.
	AllowPrivate bool
	// Timeout bounds a whole read (8 s), UDPTimeout one try by UDP (2 s),
	// TCPTimeout one by TCP (3 s).
	Timeout, UDPTimeout, TCPTimeout time.Duration
	// Now stamps reads; time.Now unless set.
	Now func() time.Time
	Log *slog.Logger
}

// Reader implements ports.DNSReader. It is safe for concurrent use.
type Reader struct {
	wire         exchanger
	resolvers    []netip.AddrPort
	recursive    bool
	port         uint16
	allowPrivate bool
	timeout      time.Duration
	now          func() time.Time
	log          *slog.Logger
	known        memory[zone]             // by domain
	hosts        memory[[]netip.Addr]     // by name server
	parents      memory[[]netip.AddrPort] // by the name above a zone
	flights      flights
}

// New returns a Reader. Resolvers that make no sense are logged and left out;
// without any left every read says zone_cut_unknown.
func New(o Options) *Reader {
	log := o.Log
	if log == nil {
		log = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	now := o.Now
	if now == nil {
		now = time.Now
	}
	return &Reader{
		wire: exchanger{
			udp:   cmp.Or(o.UDPTimeout, 2*time.Second),
			tcp:   cmp.Or(o.TCPTimeout, 3*time.Second),
			slots: newSlots(),
		},
		resolvers:    resolvers(o.Resolvers, log),
		recursive:    o.Recursive,
		port:         uint16(cmp.Or(o.Port, 53)),
		allowPrivate: o.AllowPrivate,
		timeout:      cmp.Or(o.Timeout, 8*time.Second),
		now:          now,
		log:          log,
	}
}

// Read implements ports.DNSReader. Reads of one domain at the same time are
// made once.
func (r *Reader) Read(ctx context.Context, name string, wanted ...dns.Desired) (dns.Sight, error) {
	name = normalise(name)
	sight, err := r.flights.do(ctx, route{name, fmt.Sprint(wanted)}, r.timeout, func(ctx context.Context) dns.Sight {
		return r.read(ctx, name, wanted)
	})
	if err == nil {
		ports.NoteAnswered(ctx)
	}
	return sight, err
}

// normalise gives the A-label form in which names are compared. A name that
// is no host name stays as it is; nothing will be found for it.
func normalise(name string) string {
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	if ascii, err := idna.Lookup.ToASCII(name); err == nil {
		return ascii
	}
	return name
}

// read finds the zone, asks all of its servers everything, and then others for
// what the answers depend on.
func (r *Reader) read(ctx context.Context, name string, wanted []dns.Desired) dns.Sight {
	sight := dns.Sight{Domain: name, At: r.now()}
	z, reason := r.delegation(ctx, name)
	sight.Zone, sight.Delegation, sight.Secure = z.apex, slices.Clone(z.delegation), z.secure
	if reason != "" {
		sight.Reason = reason
		return sight
	}
	rd := &reading{Reader: r, name: name, apex: z.apex, wanted: wanted, label: label(), book: &book{reader: r, pages: map[question]*page{}}}
	v := rd.survey(ctx, z)
	sight.Sets = sightOf(name, z.apex, v.serving).Sets
	sight.Servers = v.states()
	sight.Reason, sight.Warnings = v.reason(sight.Servers), v.warnings(sight)
	beyond, whole := rd.beyond(ctx, sight.Needs(wanted))
	sight.Beyond = beyond
	if sight.Reason == "" && !whole {
		sight.Reason = reasonTypeUnknown
	}
	if sight.Reason == "" && r.recursive {
		sight.Reason = dns.ReasonRecursive
	}
	if sight.Reason != "" && ctx.Err() != nil {
		sight.Reason = reasonDeadline
	}
	sight.Complete = sight.Reason == ""
	r.doubt(name, sight)
	r.log.DebugContext(ctx, "dns read", "servers", len(sight.Servers), "sets", len(sight.Sets), "reason", sight.Reason, "warnings", sight.Warnings, "secure", sight.Secure)
	return sight
}

// survey asks the zone's servers, and those that they name besides.
func (rd *reading) survey(ctx context.Context, z zone) verdict {
	reports := map[netip.AddrPort]report{}
	rd.askAll(ctx, z.servers, reports)
	v := judge(z, reports)
	if more := v.unnamed(); len(more) > 0 && !rd.recursive && ctx.Err() == nil {
		z = rd.widen(ctx, z, more)
		rd.known.keep(rd.name, z)
		rd.askAll(ctx, z.servers, reports)
		v = judge(z, reports)
	}
	return v
}

// doubt lets go of what was remembered of a domain when not all is well with
// it: its delegation may have moved.
func (r *Reader) doubt(name string, s dns.Sight) {
	well := s.Complete
	for _, server := range s.Servers {
		if server.State != dns.ServerOK {
			well = false
			r.hosts.forget(server.Name)
		}
	}
	if !well {
		r.known.forget(name)
	}
}

// label is one that no zone has a record at but by a wildcard.
func label() string { return "tenantry-" + strings.ToLower(rand.Text()) }
