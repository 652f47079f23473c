// SPDX-License-Identifier: Apache-2.0

package dns

import (
	"slices"
	"time"
)

// Action is what a plan does about one desired record.
type Action string

// The actions. Only create and update are written.
const (
	Create   Action = "create"
	Update   Action = "update"
	Preserve Action = "preserve"
	Conflict Action = "conflict"
)

// Item is what a plan says of one purpose.
type Item struct {
	Purpose Purpose
	Action  Action
	Type    Type
	Name    string
	// Desired is the content that is to stand there, the merged one of an
	// SPF record; "" while the platform has named none.
	Desired string
	// Observed holds the contents that concern the purpose.
	Observed []string
	Reason   Reason
	Notes    []Note
	// Blocking items must be settled by a person before anything is written.
	Blocking bool
}

// Written is one value that this service wrote, as its database knows it. It
// is ours while the zone still holds exactly it; all else is foreign.
type Written struct {
	Purpose Purpose
	Name    string
	Type    Type
	Value   string
	// Replaced is the value in whose place it was written, "" when it was
	// added to what there was.
	Replaced string
}

// largeTXT is how many octets of text at one name some providers still take.
const largeTXT = 8192

// Plan is what is to be done to a domain's records, and why. It is data: it can
// be shown, compared and applied. To see later that nothing moved, store its
// Hash and plan again; texts need not be UTF-8, which JSON would bend.
type Plan struct {
	Domain, Zone string
	// Reliable and Reason are the read's Complete and Reason.
	Reliable bool
	Reason   string
	At       time.Time
	Desired  []Desired
	Observed []RRSet
	Items    []Item
	// Changes are the record sets to write, in this order. They may be
	// written only when SafeToApply.
	Changes []Change
	// Writes are the values that the changes bring, each with its purpose.
	Writes []Written
}

// NewPlan decides what a domain's records need. It writes only what is missing
// and replaces only what is the platform's or ours; what somebody else's mail
// may depend on is a conflict for a person to settle.
func NewPlan(o Offer, s Sight, ours []Written) Plan {
	p := Plan{Domain: s.Domain, Zone: s.Zone, Reliable: s.Complete, Reason: s.Reason, At: s.At,
		Desired: Desire(s.Domain, o), Observed: observed(s)}
	l := look{Sight: s, ours: ours, offered: o.Verification}
	if !slices.ContainsFunc(p.Desired, func(d Desired) bool { return d.Purpose == Inbound }) {
		if v := l.inbound(Record{Type: MX, Name: s.Domain}); v.action == Conflict {
			p.add(Desired{Inbound, Record{Type: MX, Name: s.Domain}}, v)
		}
	}
	for _, want := range p.Desired {
		v := l.decide(want)
		writes := v.action == Create || v.action == Update
		if writes {
			p.change(l.at(want.Name, want.Type), want.TTL, v)
			p.note(want, v)
		}
		p.add(want, v.noting(writes && l.wildcard(want.Name), NoteWildcard).
			noting(writes && want.Type == TXT && p.size(want.Record) > largeTXT, NoteTXTLarge))
	}
	return p
}

func (l look) decide(want Desired) verdict {
	switch want.Purpose {
	case Ownership:
		return l.ownership(want.Record)
	case Inbound:
		return l.inbound(want.Record)
	case Sending:
		return l.sending(want.Record)
	case Autodiscover:
		return l.autodiscover(want.Record)
	case Policy:
		return l.policy(want.Record)
	default:
		return l.selectorAt(want)
	}
}

func (p *Plan) add(want Desired, v verdict) {
	item := Item{Purpose: want.Purpose, Action: v.action, Type: want.Type, Name: want.Name, Observed: v.observed,
		Reason: v.reason, Notes: v.notes, Blocking: v.blocking}
	if want.Content != "" {
		item.Desired = want.Value()
	}
	if len(v.add) == 1 {
		item.Desired = v.add[0]
	}
	p.Items = append(p.Items, item)
}

// change adds a verdict's edit to the change of its record set. A set that is
// there keeps its TTL. What a wildcard makes up is not there, but goes on.
func (p *Plan) change(have RRSet, ttl int, v verdict) {
	i := slices.IndexFunc(p.Changes, func(c Change) bool { return c.After.Type == have.Type && sameName(c.After.Name, have.Name) })
	if i < 0 {
		after := have
		if len(have.Values) == 0 {
			after.TTL = ttl
		}
		after.Synthesised = false
		if have.Synthesised {
			have = RRSet{Name: have.Name, Type: have.Type}
		}
		i, p.Changes = len(p.Changes), append(p.Changes, Change{Before: have, After: after})
	}
	after := &p.Changes[i].After
	after.Values = edit(after.Values, v.remove, v.add)
}

// note keeps what a verdict writes. Of several values that give way the first
// stands for all.
func (p *Plan) note(want Desired, v verdict) {
	for _, value := range v.add {
		w := Written{Purpose: want.Purpose, Name: referred(want.Name), Type: want.Type, Value: value}
		if len(v.remove) > 0 {
			w.Replaced = v.remove[0]
		}
		p.Writes = append(p.Writes, w)
	}
}

// size is how many octets of text a changed set holds afterwards.
func (p *Plan) size(at Record) int {
	total := 0
	for _, c := range p.Changes {
		if c.After.Type == at.Type && sameName(c.After.Name, at.Name) {
			for _, text := range c.After.Values {
				total += len(text)
			}
		}
	}
	return total
}

// edit is values with what is added in the place of what is removed, or at the
// end. All else stays as and where it is.
func edit(values, remove, add []string) []string {
	var out []string
	for _, value := range values {
		if !slices.Contains(remove, value) {
			out = append(out, value)
			continue
		}
		out, add = append(out, add...), nil
	}
	return append(out, add...)
}

// Blocking are the items that must be settled first.
func (p Plan) Blocking() []Item {
	var out []Item
	for _, item := range p.Items {
		if item.Blocking {
			out = append(out, item)
		}
	}
	return out
}

// SafeToApply reports whether the changes may be written: the read is reliable
// and nothing blocks.
func (p Plan) SafeToApply() bool { return p.Reliable && len(p.Blocking()) == 0 }
