// SPDX-License-Identifier: Apache-2.0

// Package dnsresolver reads a domain's mail records from the authoritative servers of its zone. It
// does not cache mail records between reads. It asks recursive resolvers for zones, addresses of
// name servers, targets of CNAMEs, and names outside the zone.
//
// Reader implements ports.DNSReader. A read finds the zone and its servers, asks each address of
// these servers for the mail records, compares the answers and returns a dns.ZoneRead.
//
//   - reader.go: Options, Reader and Read, the order of the steps. Start here.
//   - delegation.go: the zone that holds a domain, and the name servers that the parent zone and
//     the zone itself list.
//   - nameservers.go: the addresses of name servers, with the limits on their number and range.
//   - survey.go: askAll, which asks all servers, and report, the answers of one address.
//   - serverreader.go: serverReader, which sends all questions to one address.
//   - wildcard.go: finds the answers that a wildcard record synthesised.
//   - compare.go: comparison, which shows whether the servers agree, and the merged records.
//   - dependencies.go: reads names outside the zone on which the records depend.
//   - answer.go: parseAnswer, which returns the values in one DNS message.
//   - client.go: client, which sends one question to one address.
//   - slots.go: slots, which limits the questions in flight and gives each account its share.
//   - resolvers.go: the questions to recursive resolvers.
//   - ttlcache.go: ttlCache, kept between reads, and answerCache, kept during one read.
//   - sharedreads.go: sharedReads, which joins concurrent reads of one domain.
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

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/ports"
)

// Options configures a Reader. With the zero value, the Reader reads the public DNS.
type Options struct {
	// Resolvers are the addresses of recursive resolvers, as address or address:port. The default
	// is the resolvers of /etc/resolv.conf.
	Resolvers []string
	// Recursive sends all questions to the resolvers, for machines that cannot reach other DNS
	// servers. The answers may come from a cache, so every read is incomplete.
	Recursive bool
	// Port is the port of authoritative servers. The default is 53.
	Port int
	// AllowPrivate accepts authoritative servers whose addresses are not public. It is only for
	// sandboxes and tests, because the owner of a domain could choose an internal address.
	AllowPrivate bool
	// Timeout limits a whole read, by default to 8 s. UDPTimeout limits one attempt by UDP, by
	// default to 2 s. TCPTimeout limits one attempt by TCP, by default to 3 s.
	Timeout, UDPTimeout, TCPTimeout time.Duration
	// Now returns the time that is stored in ZoneRead.At. The default is time.Now.
	Now func() time.Time
	Log *slog.Logger
}

// Reader implements ports.DNSReader. It is safe for concurrent use.
type Reader struct {
	client        client
	resolvers     []netip.AddrPort
	isRecursive   bool
	port          uint16
	allowPrivate  bool
	timeout       time.Duration
	now           func() time.Time
	log           *slog.Logger
	zones         ttlCache[zone]             // by domain
	hostAddrs     ttlCache[[]netip.Addr]     // by name server
	parentAddrs   ttlCache[[]netip.AddrPort] // addresses of parent zones' servers, by the parent name of an apex
	silentServers ttlCache[struct{}]         // by the address of a server that did not answer
	sharedReads   sharedReads
}

// New returns a Reader. It logs and ignores resolvers whose address is invalid. Without a valid
// resolver, a read finds no zone.
func New(options Options) *Reader {
	log := options.Log
	if log == nil {
		log = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	now := options.Now
	if now == nil {
		now = time.Now
	}
	return &Reader{
		client: client{
			udpTimeout:   cmp.Or(options.UDPTimeout, 2*time.Second),
			tcpTimeout:   cmp.Or(options.TCPTimeout, 3*time.Second),
			serverSlots:  newSlots(maxServerQuestions),
			trustedSlots: newSlots(maxTrustedQuestions),
		},
		resolvers:    resolverAddrs(options.Resolvers, log),
		isRecursive:  options.Recursive,
		port:         uint16(cmp.Or(options.Port, 53)),
		allowPrivate: options.AllowPrivate,
		timeout:      cmp.Or(options.Timeout, 8*time.Second),
		now:          now,
		log:          log,
	}
}

// Read implements ports.DNSReader. Concurrent calls of one account for one domain with the same
// wanted records share one read.
func (r *Reader) Read(ctx context.Context, owner access.AccountID, name string, wanted ...dns.Desired) (dns.ZoneRead, error) {
	name = normalise(name)
	key := readKey{owner, name, fmt.Sprint(wanted)}
	zoneRead, err := r.sharedReads.readShared(ctx, key, r.timeout, func(ctx context.Context) dns.ZoneRead {
		return r.read(withAccount(ctx, owner), name, wanted)
	})
	if err == nil {
		ports.RecordAnswer(ctx)
	}
	return zoneRead, err
}

// normalise returns a name in lower case, without the final dot. It converts a valid host name to
// A-labels.
func normalise(name string) string {
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	if ascii, err := idna.Lookup.ToASCII(name); err == nil {
		return ascii
	}
	return name
}

// read finds the zone and asks its servers for the records of the domain. Then it asks the
// resolvers for the names on which the wanted records depend.
func (r *Reader) read(ctx context.Context, name string, wanted []dns.Desired) dns.ZoneRead {
	zoneRead := dns.ZoneRead{Domain: name, At: r.now()}
	domainZone, reason := r.findZone(ctx, name)
	zoneRead.Zone, zoneRead.Delegation, zoneRead.Secure = domainZone.apex, slices.Clone(domainZone.delegation), domainZone.isSecure
	if reason != "" {
		zoneRead.Reason = reason
		return zoneRead
	}
	rd := &domainRead{reader: r, name: name, apex: domainZone.apex, wanted: wanted, probeLabel: newProbeLabel(), answers: &answerCache{reader: r, entries: map[question]*cachedAnswer{}}}
	compared := rd.askServers(ctx, domainZone)
	zoneRead.Sets = mergeReports(name, domainZone.apex, compared.serving).Sets
	zoneRead.Servers = compared.states()
	zoneRead.Reason, zoneRead.Warnings = compared.unreliableReason(zoneRead.Servers), compared.warnings(zoneRead)
	referenced, dependenciesRead := rd.readDependencies(ctx, zoneRead.Needs(wanted))
	zoneRead.Referenced = referenced
	if zoneRead.Reason == "" && !dependenciesRead {
		zoneRead.Reason = reasonTypeUnknown
	}
	if zoneRead.Reason == "" && r.isRecursive {
		zoneRead.Reason = dns.ReasonRecursive
	}
	if zoneRead.Reason != "" && ctx.Err() != nil {
		zoneRead.Reason = reasonDeadline
	}
	zoneRead.Complete = zoneRead.Reason == ""
	r.forgetUnhealthy(name, zoneRead)
	r.log.DebugContext(ctx, "dns read", "servers", len(zoneRead.Servers), "sets", len(zoneRead.Sets), "reason", zoneRead.Reason, "warnings", zoneRead.Warnings, "secure", zoneRead.Secure)
	return zoneRead
}

// askServers asks the servers of the zone and compares their answers. It also asks the servers that
// only the zone's own NS records list.
func (rd *domainRead) askServers(ctx context.Context, z zone) comparison {
	reports := map[netip.AddrPort]report{}
	rd.askAll(ctx, z.servers, reports)
	compared := compareServers(z, reports)
	if unasked := compared.unaskedServers(); len(unasked) > 0 && !rd.reader.isRecursive && ctx.Err() == nil {
		z = rd.reader.addServersByName(ctx, z, unasked)
		rd.reader.zones.put(rd.name, z)
		rd.askAll(ctx, z.servers, reports)
		compared = compareServers(z, reports)
	}
	return compared
}

// forgetUnhealthy removes the zone of a domain from the cache if the read was not reliable or a
// server failed. The delegation may then have changed. forgetUnhealthy also removes the addresses
// of failed servers.
func (r *Reader) forgetUnhealthy(name string, zoneRead dns.ZoneRead) {
	healthy := zoneRead.Complete
	for _, server := range zoneRead.Servers {
		if server.State != dns.ServerOK {
			healthy = false
			r.hostAddrs.delete(server.Name)
		}
	}
	if !healthy {
		r.zones.delete(name)
	}
}

// newProbeLabel returns a random label for a name that does not exist. Only a wildcard record can
// answer for this name.
func newProbeLabel() string { return "tenantry-" + strings.ToLower(rand.Text()) }

// Values of ZoneRead.Reason, in addition to those of package core/dns. They are part of the API and
// do not change.
const (
	reasonZoneCut     = "zone_cut_unknown"
	reasonNoAnswer    = "no_authoritative_answer"
	reasonSingle      = "single_server_answered"
	reasonDisagree    = "servers_disagree"
	reasonTypeUnknown = "type_unknown"
	reasonBogus       = "dnssec_bogus"
	reasonDeadline    = "read_deadline"
)

// The values of ZoneRead.Warnings: problems of a zone or its servers. A read with warnings can be
// complete. The values are part of the API and do not change.
const (
	warnLame        = "lame_delegation"
	warnUnreachable = "server_unreachable"
	warnMismatch    = "delegation_mismatch"
	warnTCP         = "tcp_blocked"
	warnForbidden   = "ns_address_forbidden"
	warnWildcard    = "wildcard_ambiguous"
	warnMulti       = "multi_provider"
)
