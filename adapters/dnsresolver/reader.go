// SPDX-License-Identifier: Apache-2.0

// Package dnsresolver reads a domain's mail records from all authoritative servers of its zone,
// without a cache in between. The recursive resolvers are asked only for the zone, the addresses of
// its servers, targets of CNAMEs and names outside the zone.
//
// Reader implements ports.DNSReader. A read finds the zone and its servers, asks each server
// address all questions, compares the answers and returns a dns.ZoneRead.
//
//   - reader.go: Options, Reader and Read, the order of the steps. Start here.
//   - delegation.go: the zone that holds a domain, and the name servers that the parent zone and
//     the zone itself list.
//   - nameservers.go: the addresses of name servers, with the limits on their number and range.
//   - survey.go: askAll, which asks all servers, and report, what one server answered.
//   - serverreader.go: serverReader, the questions to one server.
//   - wildcard.go: which answers a wildcard record synthesised.
//   - compare.go: comparison, whether the servers agree, and the merged records.
//   - dependencies.go: names outside the zone that the records depend on.
//   - answer.go: parseAnswer, one DNS message as values.
//   - client.go: client, one question to one address. slots.go limits the questions in flight.
//   - resolvers.go: the questions to recursive resolvers.
//   - cache.go: what is kept between reads, and within one read. sharedreads.go: concurrent reads
//     of one domain are done once.
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

// Options configures a Reader. With the zero value, it reads the public DNS through the resolvers
// of /etc/resolv.conf.
type Options struct {
	// Resolvers are the addresses of recursive resolvers, as address or address:port. Only their
	// answers about zones, name servers and names outside the zone are used.
	Resolvers []string
	// Recursive sends all questions to the resolvers, for machines that cannot reach other DNS
	// servers. The answers may come from a cache, so no read is complete.
	Recursive bool
	// Port is the port of authoritative servers. The default is 53.
	Port int
	// AllowPrivate accepts authoritative servers whose addresses are not public unicast. Only
	// sandboxes and tests set it, because the owners of domains choose those addresses.
	AllowPrivate bool
	// Timeout limits a whole read (default 8 s), UDPTimeout one attempt by UDP (2 s), TCPTimeout
	// one attempt by TCP (3 s).
	Timeout, UDPTimeout, TCPTimeout time.Duration
	// Now returns the time that is stored in ZoneRead.At. The default is time.Now.
	Now func() time.Time
	Log *slog.Logger
}

// Reader implements ports.DNSReader. It is safe for concurrent use.
type Reader struct {
	client       client
	resolvers    []netip.AddrPort
	recursive    bool
	port         uint16
	allowPrivate bool
	timeout      time.Duration
	now          func() time.Time
	log          *slog.Logger
	zones        ttlCache[zone]             // by domain
	hostAddrs    ttlCache[[]netip.Addr]     // by name server
	parentAddrs  ttlCache[[]netip.AddrPort] // by the parent of a zone apex
	sharedReads  sharedReads
}

// New returns a Reader. It logs and ignores resolvers whose address is invalid. Without a valid
// resolver each read has the reason zone_cut_unknown.
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
		client: client{
			udp:   cmp.Or(o.UDPTimeout, 2*time.Second),
			tcp:   cmp.Or(o.TCPTimeout, 3*time.Second),
			slots: newSlots(),
		},
		resolvers:    resolverAddrs(o.Resolvers, log),
		recursive:    o.Recursive,
		port:         uint16(cmp.Or(o.Port, 53)),
		allowPrivate: o.AllowPrivate,
		timeout:      cmp.Or(o.Timeout, 8*time.Second),
		now:          now,
		log:          log,
	}
}

// Read implements ports.DNSReader. Concurrent reads of one domain with the same wanted records
// share one read. The only error is that of ctx; DNS failures are in ZoneRead.Reason.
func (r *Reader) Read(ctx context.Context, name string, wanted ...dns.Desired) (dns.ZoneRead, error) {
	name = normalise(name)
	sight, err := r.sharedReads.do(ctx, readKey{name, fmt.Sprint(wanted)}, r.timeout, func(ctx context.Context) dns.ZoneRead {
		return r.read(ctx, name, wanted)
	})
	if err == nil {
		ports.RecordAnswer(ctx)
	}
	return sight, err
}

// normalise returns the lower-case A-label form of a name. It returns a name that is not a valid
// host name in lower case; no zone will be found for it.
func normalise(name string) string {
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	if ascii, err := idna.Lookup.ToASCII(name); err == nil {
		return ascii
	}
	return name
}

// read finds the zone, asks all of its servers all questions, and then asks the resolvers for the
// names that the records depend on.
func (r *Reader) read(ctx context.Context, name string, wanted []dns.Desired) dns.ZoneRead {
	sight := dns.ZoneRead{Domain: name, At: r.now()}
	z, reason := r.findZone(ctx, name)
	sight.Zone, sight.Delegation, sight.Secure = z.apex, slices.Clone(z.delegation), z.secure
	if reason != "" {
		sight.Reason = reason
		return sight
	}
	rd := &domainRead{reader: r, name: name, apex: z.apex, wanted: wanted, probeLabel: newProbeLabel(), answers: &answerCache{reader: r, entries: map[question]*cachedAnswer{}}}
	v := rd.survey(ctx, z)
	sight.Sets = mergeReports(name, z.apex, v.serving).Sets
	sight.Servers = v.states()
	sight.Reason, sight.Warnings = v.reason(sight.Servers), v.warnings(sight)
	beyond, dependenciesRead := rd.readDependencies(ctx, sight.Needs(wanted))
	sight.Beyond = beyond
	if sight.Reason == "" && !dependenciesRead {
		sight.Reason = reasonTypeUnknown
	}
	if sight.Reason == "" && r.recursive {
		sight.Reason = dns.ReasonRecursive
	}
	if sight.Reason != "" && ctx.Err() != nil {
		sight.Reason = reasonDeadline
	}
	sight.Complete = sight.Reason == ""
	r.forgetUnhealthy(name, sight)
	r.log.DebugContext(ctx, "dns read", "servers", len(sight.Servers), "sets", len(sight.Sets), "reason", sight.Reason, "warnings", sight.Warnings, "secure", sight.Secure)
	return sight
}

// survey asks the servers of the zone and compares their answers. When the zone's NS records list
// further servers, it asks those too.
func (rd *domainRead) survey(ctx context.Context, z zone) comparison {
	reports := map[netip.AddrPort]report{}
	rd.askAll(ctx, z.servers, reports)
	v := compareServers(z, reports)
	if unasked := v.unaskedServers(); len(unasked) > 0 && !rd.reader.recursive && ctx.Err() == nil {
		z = rd.reader.addNamedServers(ctx, z, unasked)
		rd.reader.zones.put(rd.name, z)
		rd.askAll(ctx, z.servers, reports)
		v = compareServers(z, reports)
	}
	return v
}

// forgetUnhealthy deletes the cached zone of a domain when the read was incomplete or a server
// failed, because the delegation may have changed. It also deletes the addresses of failed servers.
func (r *Reader) forgetUnhealthy(name string, s dns.ZoneRead) {
	healthy := s.Complete
	for _, server := range s.Servers {
		if server.State != dns.ServerOK {
			healthy = false
			r.hostAddrs.delete(server.Name)
		}
	}
	if !healthy {
		r.zones.delete(name)
	}
}

// newProbeLabel returns a random label. A zone can only answer for it by a wildcard record.
func newProbeLabel() string { return "tenantry-" + strings.ToLower(rand.Text()) }

// The values of ZoneRead.Reason: why a read is not complete. They are part of the API and do not
// change.
const (
	reasonZoneCut      = "zone_cut_unknown"
	reasonNotDelegated = dns.ReasonNotDelegated
	reasonNoAnswer     = "no_authoritative_answer"
	reasonSingle       = "single_server_answered"
	reasonDisagree     = "servers_disagree"
	reasonTypeUnknown  = "type_unknown"
	reasonBogus        = "dnssec_bogus"
	reasonDeadline     = "read_deadline"
)

// The values of ZoneRead.Warnings: faults of a zone that do not prevent reading it. They are part of
// the API and do not change.
const (
	warnLame        = "lame_delegation"
	warnUnreachable = "server_unreachable"
	warnMismatch    = "delegation_mismatch"
	warnTCP         = "tcp_blocked"
	warnForbidden   = "ns_address_forbidden"
	warnWildcard    = "wildcard_ambiguous"
	warnMulti       = "multi_provider"
)
