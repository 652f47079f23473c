// SPDX-License-Identifier: Apache-2.0

// Package webhook decides how the events of an account are delivered to the account's endpoints:
// which events an endpoint gets, when a delivery is tried again, and when an endpoint is disabled.
// It also signs messages, as Standard Webhooks defines.
//
//   - webhook.go: Webhook, the endpoint. Start here.
//   - delivery.go: Delivery, the tries of one event at one endpoint.
//   - standing.go: Standing, which limits the parallel messages to an endpoint.
//   - message.go: the body of a message, secrets and signatures.
package webhook

import (
	"slices"
	"time"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/event"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/tenant"
)

const (
	// MaxPerAccount is the maximum number of webhooks of an account.
	MaxPerAccount = 10
	// MaxURL is the maximum length of a URL in bytes. MaxDescription is the maximum length of a
	// description in characters.
	MaxURL         = 2048
	MaxDescription = 256
	// MaxConcurrent is the maximum number of deliveries that are sent to one endpoint at the same
	// time.
	MaxConcurrent = 4
	// DisableAfter is how long a webhook must be failing before it is disabled.
	DisableAfter = 5 * 24 * time.Hour
	// DefaultOverlap is how long the previous secret stays valid after a rotation, unless the
	// caller asks for a different time.
	DefaultOverlap = 24 * time.Hour
)

// Webhook is an endpoint of an account that receives events.
type Webhook struct {
	ID      string
	Account access.AccountID
	URL     string
	// Types are the types of the events that the endpoint gets; empty means all types.
	Types []event.Type
	// Tenants are the tenants whose events the endpoint gets; empty means all events.
	Tenants     []tenant.GUID
	Description string
	Status      Status
	Secrets     Secrets
	// FailingSince is the time of the first failed try since the last success, the last change of
	// the URL, or the last time when the webhook was enabled again. Failed tests do not count.
	// FailingSince is zero if no try has failed since then.
	FailingSince time.Time
	CreatedAt    time.Time
}

// Secrets are the encrypted secrets that sign the messages of a webhook.
type Secrets struct {
	Current []byte
	// Previous also signs until PreviousUntil. It is nil if there was no rotation, or if the last
	// rotation had no overlap.
	Previous      []byte
	PreviousUntil time.Time
}

// Status is the status of a webhook.
type Status string

// The statuses of a webhook. A disabled webhook gets no events.
const (
	Enabled  Status = "enabled"
	Disabled Status = "disabled"
)

// AllTypes is the entry of a list of types that selects all types.
const AllTypes = "*"

// ParseTypes returns the types that a list names, or nil for ["*"]. It fails with invalid_request
// if the list is empty, names a type twice, or names an unknown type.
func ParseTypes(names []string) ([]event.Type, error) {
	if len(names) == 1 && names[0] == AllTypes {
		return nil, nil
	}
	known, types := event.Types(), make([]event.Type, 0, len(names))
	for _, name := range names {
		t := event.Type(name)
		if !slices.Contains(known, t) || slices.Contains(types, t) {
			return nil, invalidTypes()
		}
		types = append(types, t)
	}
	if len(types) == 0 {
		return nil, invalidTypes()
	}
	return types, nil
}

func invalidTypes() error {
	const problem = `must be ["*"] or a list of different types of events`
	return fault.InvalidRequest.At("event_types "+problem, fault.Field{Name: "event_types", Message: problem})
}

// TypeNames returns the webhook's types in the form that ParseTypes reads.
func (w Webhook) TypeNames() []string {
	if len(w.Types) == 0 {
		return []string{AllTypes}
	}
	names := make([]string, 0, len(w.Types))
	for _, t := range w.Types {
		names = append(names, string(t))
	}
	return names
}

// Wants reports whether the endpoint gets an event of this type and tenant.
func (w Webhook) Wants(t event.Type, tenantGUID tenant.GUID) bool {
	return (len(w.Types) == 0 || slices.Contains(w.Types, t)) && (len(w.Tenants) == 0 || slices.Contains(w.Tenants, tenantGUID))
}

// IsFailing reports whether FailingSince is set.
func (w Webhook) IsFailing() bool { return !w.FailingSince.IsZero() }

// AfterTry returns the webhook after the last try of d. If the try disables the webhook, AfterTry
// also returns the reason. Otherwise the reason is empty. gone is true if the endpoint answered
// that it wants no more messages.
func (w Webhook) AfterTry(d Delivery, gone bool) (Webhook, Reason) {
	at := d.Attempts[len(d.Attempts)-1].At
	switch {
	case d.Status == Delivered:
		w.FailingSince = time.Time{}
	case d.EventType != TestType && !w.IsFailing(): // a failed test does not make the webhook failing
		w.FailingSince = at
	}
	var reason Reason
	switch {
	case w.Status != Enabled:
		return w, ""
	case gone:
		reason = ReasonGone
	case d.Status != Delivered && d.EventType != TestType && !w.FailingSince.After(at.Add(-DisableAfter)):
		reason = ReasonFailing
	default:
		return w, ""
	}
	w.Status = Disabled
	return w, reason
}

// Rotate returns the secrets with current as the new secret. The previous secret also signs
// messages until the overlap has passed. If overlap is 0, the previous secret is dropped at once.
func (s Secrets) Rotate(current []byte, overlap time.Duration, now time.Time) Secrets {
	if overlap == 0 {
		return Secrets{Current: current}
	}
	return Secrets{Current: current, Previous: s.Current, PreviousUntil: now.Add(overlap)}
}

// ValidAt returns the encrypted secrets that sign messages at now, the newest first.
func (s Secrets) ValidAt(now time.Time) [][]byte {
	if s.Previous == nil || !now.Before(s.PreviousUntil) {
		return [][]byte{s.Current}
	}
	return [][]byte{s.Current, s.Previous}
}

// Reason says why a webhook was disabled.
type Reason string

// The reasons.
const (
	ReasonRequested Reason = "requested" // by the account
	ReasonGone      Reason = "gone"      // the endpoint answered 410
	ReasonFailing   Reason = "failing"   // it was failing for DisableAfter
)

// DisabledEvent returns the event that says that a webhook was disabled.
func DisabledEvent(id string, reason Reason) event.Event {
	return event.Event{Type: event.WebhookDisabled, Subject: event.Subject{Type: event.Webhook, ID: id},
		Data: event.WebhookData{WebhookID: id, Status: string(Disabled), Reason: string(reason)}}
}
