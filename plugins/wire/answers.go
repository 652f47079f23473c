// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"slices"
	"strings"

	protobuf "google.golang.org/protobuf/proto"

	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/integration"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/plugins/proto"
)

// checkAnswer fails with Broken if an answer is about a different object than its request. The host
// would otherwise store the id of a foreign object, and remove that object later, or write to a
// foreign zone.
//
// Other lists than record sets are not checked. A list of accounts is read for known mailboxes only,
// and the objects of a mail platform are stored for the tenant of the request. Core leaves out DNS
// records that a mail platform specifies outside the domain, see dns.Desire.
func checkAnswer(request, answer protobuf.Message) error {
	matches := true
	switch a := answer.(type) {
	case *proto.DNSZone:
		matches = sameName(a.GetName(), request.(interface{ GetName() string }).GetName())
	case *proto.RecordSets:
		zone := request.(interface{ GetZone() *proto.DNSZone }).GetZone().GetName()
		matches = !slices.ContainsFunc(a.GetSets(), func(s *proto.RecordSet) bool {
			return !inZone(s.GetName(), zone) || !isRecordType(s.GetType())
		})
	case *proto.PlatformDomain:
		asked := request.(interface{ GetName() string }).GetName()
		matches = a.GetName() == asked || domain.Lookup(a.GetName()) == asked
	case *proto.SharedMailbox:
		matches = integration.SameAddress(a.GetAddress(), request.(interface{ GetAddress() string }).GetAddress())
	case *proto.SendingAccount: // without an id there is no account
		matches = a.GetId() == "" || integration.SameAddress(a.GetAddress(), request.(interface{ GetAddress() string }).GetAddress())
	}
	if matches {
		return nil
	}
	return &outcome.Error{Kind: outcome.Broken, Cause: CauseProtocol, Detail: "the plugin's answer is about a different object than the request"}
}

func sameName(a, b string) bool { return plainName(a) == plainName(b) }

// inZone reports whether a name is the apex of a zone or below it.
func inZone(name, zone string) bool {
	return sameName(name, zone) || strings.HasSuffix(plainName(name), "."+plainName(zone))
}

func plainName(name string) string { return strings.TrimSuffix(strings.ToLower(name), ".") }

// isRecordType reports whether a text has the form of a record type, such as TXT or TYPE65534. The
// host compares types exactly, so it would overlook a type in lower case.
func isRecordType(name string) bool {
	return name != "" && strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-") == ""
}
