// SPDX-License-Identifier: Apache-2.0

package dns

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
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

// Plan is what is to be done to a domain's records, and why. It is data: it can
// be shown, stored, compared and applied.
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
		p.add(want, v)
		if v.action == Create || v.action == Update {
			p.change(l.at(want.Name, want.Type), want.TTL, v)
		}
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
		item.Desired = want.value()
	}
	if len(v.add) == 1 {
		item.Desired = v.add[0]
	}
	p.Items = append(p.Items, item)
}

// change adds a verdict's edit to the change of its record set. A set that is
// there keeps its TTL.
func (p *Plan) change(have RRSet, ttl int, v verdict) {
	i := slices.IndexFunc(p.Changes, func(c Change) bool { return c.After.Type == have.Type && sameName(c.After.Name, have.Name) })
	if i < 0 {
		after := have
		if len(have.Values) == 0 {
			after.TTL = ttl
		}
		i, p.Changes = len(p.Changes), append(p.Changes, Change{Before: have, After: after})
	}
	after := &p.Changes[i].After
	after.Values = edit(after.Values, v.remove, v.add)
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

// Hash is the same for two plans that would write the same for the same
// reasons, whenever and from wherever the zone was read.
func (p Plan) Hash() string {
	type decision struct {
		Purpose Purpose
		Action  Action
		Desired string
	}
	type write struct {
		Name          string
		Type          Type
		Before, After []string
	}
	content := struct {
		Domain    string
		Decisions []decision
		Writes    []write
	}{Domain: referred(p.Domain)}
	for _, item := range p.Items {
		content.Decisions = append(content.Decisions, decision{item.Purpose, item.Action, item.Desired})
	}
	for _, c := range p.Changes {
		content.Writes = append(content.Writes, write{referred(c.After.Name), c.After.Type,
			slices.Sorted(slices.Values(c.Before.Values)), slices.Sorted(slices.Values(c.After.Values))})
	}
	// Nothing in it can fail to be encoded, but JSON bends bytes that are no
	// UTF-8; so texts are hashed in hexadecimal.
	for i := range content.Decisions {
		content.Decisions[i].Desired = hex.EncodeToString([]byte(content.Decisions[i].Desired))
	}
	for _, w := range content.Writes {
		hexEach(w.Before)
		hexEach(w.After)
	}
	encoded, _ := json.Marshal(content)
	sum := sha256.Sum256(encoded)
	return hex.EncodeToString(sum[:])
}

func hexEach(values []string) {
	for i, v := range values {
		values[i] = hex.EncodeToString([]byte(v))
	}
}
