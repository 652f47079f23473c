// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/tenantry/tenantry/plugins/sdk"
	"github.com/tenantry/tenantry/plugins/sdk/simulate"
)

// refusal is the text of an error that is answered with 422.
type refusal string

func (r refusal) Error() string { return string(r) }

func refusef(format string, args ...any) error { return refusal(fmt.Sprintf(format, args...)) }

// patch replaces and deletes record sets. Either all changes of the request take effect or none. If
// somebody else changes the zone first, patch starts again with the changed zone.
func (s *simulator) patch(w http.ResponseWriter, r *http.Request) {
	var body struct {
		RRSets []rrsetDoc `json:"rrsets"`
	}
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		answerPlainText(w, http.StatusBadRequest)
		return
	}
	for {
		zone, err := s.zones.Get(r.Context(), strings.TrimSuffix(r.PathValue("zone"), "."))
		if err != nil {
			fail(w, err)
			return
		}
		sets, err := setsAfter(zone, body.RRSets)
		if err == nil {
			err = s.zones.Edit(r.Context(), zone.Name, zone.Version, simulate.RecordsOf(sets))
		}
		if errors.Is(err, simulate.ErrZoneChanged) {
			continue
		}
		if err != nil {
			fail(w, err)
			return
		}
		w.Header().Set("X-PDNS-Old-Serial", strconv.FormatUint(uint64(zone.Version), 10))
		w.Header().Set("X-PDNS-New-Serial", strconv.FormatUint(uint64(zone.Version)+1, 10))
		w.WriteHeader(http.StatusNoContent)
		return
	}
}

// setsAfter returns the record sets of a zone after the changes. It omits the SOA and NS sets of
// the apex, which are not in simulate.Zone.Records. Its error is a refusal.
func setsAfter(zone simulate.Zone, changes []rrsetDoc) ([]sdk.RRSet, error) {
	sets, isChanged := recordSets(zone), map[string]bool{}
	for _, change := range changes {
		name := sdk.PlainName(change.Name)
		kind := sdk.RecordType(change.Type)
		label := fmt.Sprintf("RRset %s IN %s", change.Name, change.Type)
		deletes := strings.EqualFold(change.ChangeType, "DELETE")
		switch key := name + " " + change.Type + " " + strings.ToUpper(change.ChangeType); {
		case !strings.HasSuffix(change.Name, "."):
			return nil, refusef("DNS Name '%s' is not canonical", change.Name)
		case isChanged[key]:
			return nil, refusef("Duplicate RRset %s IN %s with changetype: %s", change.Name, change.Type, strings.ToUpper(change.ChangeType))
		case !deletes && !strings.EqualFold(change.ChangeType, "REPLACE"):
			return nil, refusal("Changetype not understood")
		case name != zone.Name && !strings.HasSuffix(name, "."+zone.Name):
			return nil, refusef("%s: Name is out of zone", label)
		default:
			isChanged[key] = true
		}
		others := slices.DeleteFunc(slices.Clone(sets), func(old sdk.RRSet) bool { return old.Name == name && old.Type == kind })
		if deletes {
			sets = others
			continue
		}
		set, err := newSet(change)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(others, func(o sdk.RRSet) bool { return o.Name == name && (o.Type == sdk.CNAME || kind == sdk.CNAME) }) {
			return nil, refusef("%s: Conflicts with pre-existing RRset", label)
		}
		if sets = others; len(set.Values) > 0 {
			sets = append(sets, set)
		}
	}
	return slices.DeleteFunc(sets, func(s sdk.RRSet) bool { return s.Name == zone.Name && (s.Type == sdk.SOA || s.Type == sdk.NS) }), nil
}

// newSet returns the record set that a change writes. Its error is a refusal.
func newSet(change rrsetDoc) (sdk.RRSet, error) {
	set := sdk.RRSet{Name: sdk.PlainName(change.Name), Type: sdk.RecordType(change.Type)}
	if change.TTL == nil {
		return set, refusal("Key 'ttl' not an Integer or not present")
	}
	set.TTL = *change.TTL
	for _, record := range change.Records {
		value, err := sdk.ReadContent(set.Type, record.Content)
		switch {
		case record.Disabled:
			return set, refusal("This simulator has no disabled records")
		case err == nil && value == record.Content && sdk.WriteContent(set.Type, value) != record.Content: // the content lacks quotes or a final dot
			return set, refusef("Record %s/%s '%s': Not in expected format (parsed as '%s')", change.Name, change.Type, record.Content, sdk.WriteContent(set.Type, value))
		case err != nil || !isValidAddress(set.Type, record.Content):
			return set, refusef("Record %s/%s '%s': Parsing record content (try 'pdnsutil check-zone')", change.Name, change.Type, record.Content)
		case slices.ContainsFunc(change.Records[:len(set.Values)], func(other recordDoc) bool { return other.Content == record.Content }):
			return set, refusef("Duplicate record in RRset %s IN %s with content \"%s\"", change.Name, change.Type, record.Content)
		}
		set.Values = append(set.Values, value)
	}
	if set.Type == sdk.CNAME && len(set.Values) > 1 {
		return set, refusef("RRset %s IN CNAME has more than one record", change.Name)
	}
	return set, nil
}

// isValidAddress reports whether the content of an A or AAAA record is an address of the right
// family. For other types it returns true.
func isValidAddress(kind sdk.RecordType, content string) bool {
	if kind != "A" && kind != "AAAA" {
		return true
	}
	address, err := netip.ParseAddr(content)
	return err == nil && address.Is4() == (kind == "A")
}
