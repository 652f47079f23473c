// SPDX-License-Identifier: Apache-2.0

package dns

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
	"time"
)

// Action is what a plan does for one desired record.
type Action string

// The actions. Only Create and Update write records.
const (
	Create   Action = "create"
	Update   Action = "update"
	Preserve Action = "preserve"
	Conflict Action = "conflict"
)

// Item is the decision of a plan on one purpose.
type Item struct {
	Purpose Purpose
	Action  Action
	Type    Type
	Name    string
	// Desired is the content to publish. For an update of the SPF record it is the whole new
	// record. It is "" until the platform has specified the content.
	Desired string
	// Observed holds the existing contents that concern the purpose.
	Observed []string
	Reason   Reason
	Notes    []Note
	// Blocking is true for an item that a person must resolve before anything is written.
	Blocking bool
	// Optional is true for an update that only removes old verification records. The update is
	// written together with the next change that the domain needs.
	Optional bool
}

// Written is one value that tenantry writes. Once the write counts as made (see ResolveWrites),
// tenantry manages the value while the zone contains exactly this value. All other values are
// foreign.
type Written struct {
	Purpose Purpose
	Name    string
	Type    Type
	Value   string
	// Replaced is the value that Value replaced, "" if Value was only added.
	Replaced string
}

// largeTXT is the total size, in octets, above which some providers reject the texts at one name.
const largeTXT = 8192

// Plan is the set of changes that a domain's records need, with reasons. To detect later changes of
// the zone, callers store the Hash and compare it with the hash of a new plan. They do not store
// the plan as JSON, because JSON alters texts that are not UTF-8.
type Plan struct {
	Domain, Zone string
	// Reliable and Reason are ZoneRead.Complete and ZoneRead.Reason.
	Reliable bool
	Reason   string
	At       time.Time
	Desired  []Desired
	Observed []RRSet
	Items    []Item
	// Changes are the record sets to write, in this order. They may be written only if SafeToApply
	// returns true.
	Changes []Change
	// Writes are the values that the changes add, with their purposes.
	Writes []Written
}

// NewPlan returns the plan for a domain's records. managed holds the values that tenantry wrote.
// The plan adds missing values. It replaces outdated values of the platform and of tenantry, and
// adds the platform's terms to a foreign SPF record. If a foreign value prevents a record, the plan
// has a conflict.
func NewPlan(o Offer, read ZoneRead, managed []Written) Plan {
	p := Plan{Domain: read.Domain, Zone: read.Zone, Reliable: read.Complete, Reason: read.Reason, At: read.At,
		Desired: DesiredRecords(read.Domain, o), Observed: observedSets(read)}
	z := zoneView{ZoneRead: read, managed: managed, offered: o.Verification, hosts: o.Hosts}
	if !slices.ContainsFunc(p.Desired, func(d Desired) bool { return d.Purpose == Inbound }) {
		if v := z.decideMX(Record{Type: MX, Name: read.Domain}); v.action == Conflict {
			p.addItem(Desired{Inbound, Record{Type: MX, Name: read.Domain}}, v)
		}
	}
	if p.Incomplete() {
		if v := z.decideEarlySPF(); v.blocking {
			p.addItem(Desired{Sending, Record{Type: TXT, Name: read.Domain}}, v)
		}
	}
	for _, want := range earlySelectors(read.Domain, o.Signing) {
		if v := z.decideEarlySelector(want); v.blocking {
			p.addItem(want, v)
		}
	}
	for _, want := range p.Desired {
		v := z.decide(want)
		writes := v.action == Create || v.action == Update
		if writes {
			p.addChange(z.setAt(want.Name, want.Type), want.TTL, v)
			p.addWrites(want, v)
		}
		p.addItem(want, v.withNoteIf(writes && z.hasWildcardAnswer(want.Name), NoteWildcard).
			withNoteIf(writes && want.Type == TXT && p.textSize(want.Record) > largeTXT, NoteTXTLarge))
	}
	return p
}

// Incomplete reports whether the plan lacks the SPF record. The platform specifies the SPF, MX and
// DKIM records only after it has verified the domain. Until then, the plan has a conflict about one
// of these records only if the conflict remains whatever the platform specifies.
func (p Plan) Incomplete() bool { return lacksSPF(p.Desired) }

func (z zoneView) decide(want Desired) verdict {
	switch want.Purpose {
	case Ownership:
		return z.decideOwnership(want.Record)
	case Inbound:
		return z.decideMX(want.Record)
	case Sending:
		return z.decideSPF(want.Record)
	case Autodiscover:
		return z.decideAutodiscover(want.Record)
	case Policy:
		return z.decideDMARC(want.Record)
	default:
		return z.decideSelector(want)
	}
}

// decideOwnership decides on the TXT record that proves ownership. Ownership records that tenantry
// did not write are preserved.
func (z zoneView) decideOwnership(want Record) verdict {
	texts := z.setAt(want.Name, TXT).Values
	label, _, _ := strings.Cut(want.Content, "=")
	alike := filter(texts, func(text string) bool { return text == want.Content || strings.HasPrefix(text, label+"=") })
	superseded := filter(alike, func(text string) bool {
		_, managed := z.findWritten(Ownership, text)
		return managed
	})
	switch {
	case z.domainIsCNAME():
		return blockingConflict(ReasonAliasAtDomain).withObserved(z.setAt(z.Domain, CNAME).Values)
	case slices.Contains(texts, want.Content):
		return preserve(ReasonPresent).withObserved(alike)
	case len(superseded) > 0:
		return update(ReasonOwnSuperseded, superseded, want.Content).withObserved(alike)
	default:
		return create(want.Content).withObserved(alike)
	}
}

// decideAutodiscover decides on the autodiscover CNAME. A conflict never blocks, because only some
// mail clients use the record.
func (z zoneView) decideAutodiscover(want Record) verdict {
	alias := z.setAt(want.Name, CNAME)
	targets, existing := alias.Values, alias.Values
	if len(targets) == 0 {
		existing = z.nonCNAMEValues(want.Name)
	}
	switch {
	case len(targets) == 1 && sameName(targets[0], want.Content):
		return preserve(ReasonPresent).withObserved(targets).withNoteIf(alias.Veiled, NoteProxied)
	case len(existing) == 0:
		return create(want.Value())
	case z.allManaged(Autodiscover, existing):
		return update(ReasonOwnSuperseded, targets, want.Value()).withObserved(existing)
	default:
		return conflict(ReasonAutodiscoverTaken).withObserved(existing)
	}
}

func (p *Plan) addItem(want Desired, v verdict) {
	item := Item{Purpose: want.Purpose, Action: v.action, Type: want.Type, Name: want.Name, Observed: v.observed,
		Reason: v.reason, Notes: v.notes, Blocking: v.blocking, Optional: v.optional}
	if want.Content != "" {
		item.Desired = want.Value()
	}
	if len(v.add) == 1 {
		item.Desired = v.add[0]
	}
	p.Items = append(p.Items, item)
}

// addChange adds a verdict to the change of the record set current. An existing set keeps its TTL.
// A set that a wildcard produced does not exist in the zone, so the change also writes the values
// of the wildcard.
func (p *Plan) addChange(current RRSet, ttl int, v verdict) {
	i := slices.IndexFunc(p.Changes, func(c Change) bool { return c.After.Type == current.Type && sameName(c.After.Name, current.Name) })
	if i < 0 {
		after := current
		if len(current.Values) == 0 {
			after.TTL = ttl
		}
		after.Synthesised, after.Veiled = false, false
		if current.Synthesised {
			current = RRSet{Name: current.Name, Type: current.Type}
		}
		i, p.Changes = len(p.Changes), append(p.Changes, Change{Before: current, After: after})
	}
	after := &p.Changes[i].After
	after.Values = replaceValues(after.Values, v.remove, v.add)
}

// addWrites appends to p.Writes the values that a verdict adds. If one value replaces several,
// Replaced is the first of them.
func (p *Plan) addWrites(want Desired, v verdict) {
	for _, value := range v.add {
		written := Written{Purpose: want.Purpose, Name: normalName(want.Name), Type: want.Type, Value: value}
		if len(v.remove) > 0 {
			written.Replaced = v.remove[0]
		}
		p.Writes = append(p.Writes, written)
	}
}

// textSize returns the total length, in octets, of the texts at the name of record after the
// changes.
func (p *Plan) textSize(record Record) int {
	total := 0
	for _, c := range p.Changes {
		if c.After.Type == record.Type && sameName(c.After.Name, record.Name) {
			for _, text := range c.After.Values {
				total += len(text)
			}
		}
	}
	return total
}

// replaceValues returns values without the values in remove. It inserts add in the position of the
// first removed value, or at the end. All other values keep their order.
func replaceValues(values, remove, add []string) []string {
	var result []string
	for _, value := range values {
		if !slices.Contains(remove, value) {
			result = append(result, value)
			continue
		}
		result, add = append(result, add...), nil
	}
	return append(result, add...)
}

// Blocking returns the items that a person must resolve before the changes are written.
func (p Plan) Blocking() []Item {
	var blocking []Item
	for _, item := range p.Items {
		if item.Blocking {
			blocking = append(blocking, item)
		}
	}
	return blocking
}

// SafeToApply reports whether the changes may be written: the read is reliable and no item blocks.
func (p Plan) SafeToApply() bool { return p.Reliable && len(p.Blocking()) == 0 }

// Complete reports whether the domain needs no change. The plan can still have optional changes and
// conflicts.
func (p Plan) Complete() bool { return !slices.ContainsFunc(p.Items, Item.needsWrite) }

// VisibleIn reports whether the public DNS has all records of p. public is the plan from a read of
// the public DNS. It may lack the records for which p has a conflict that does not block, because
// such records are never written.
func (p Plan) VisibleIn(public Plan) bool {
	return public.SafeToApply() && !slices.ContainsFunc(public.Items, func(missing Item) bool {
		return missing.needsWrite() && !slices.ContainsFunc(p.Items, func(i Item) bool { return i.Purpose == missing.Purpose && i.Action == Conflict })
	})
}

func (i Item) needsWrite() bool { return (i.Action == Create || i.Action == Update) && !i.Optional }

// hashedItem and hashedChange are the parts of a plan that its hash covers. Contents are bytes,
// because JSON alters a text that is not UTF-8.
type (
	hashedItem struct {
		Purpose Purpose
		Action  Action
		Desired []byte
	}
	hashedChange struct {
		Name          string
		Type          Type
		Before, After [][]byte
	}
)

// Hash returns a SHA-256 hash, in hex, of the plan's decisions and writes. It does not depend on
// the time of the read or on the servers that answered.
func (p Plan) Hash() string {
	content := struct {
		Domain  string
		Decided []hashedItem
		Changed []hashedChange
	}{Domain: normalName(p.Domain)}
	for _, i := range p.Items {
		content.Decided = append(content.Decided, hashedItem{i.Purpose, i.Action, []byte(i.Desired)})
	}
	for _, c := range p.Changes {
		content.Changed = append(content.Changed, hashedChange{
			normalName(c.After.Name), c.After.Type, sortedValues(c.Before.Values), sortedValues(c.After.Values),
		})
	}
	encoded, _ := json.Marshal(content) // never fails for this type
	sum := sha256.Sum256(encoded)
	return hex.EncodeToString(sum[:])
}

func sortedValues(values []string) [][]byte {
	var out [][]byte
	for _, v := range slices.Sorted(slices.Values(values)) {
		out = append(out, []byte(v))
	}
	return out
}
