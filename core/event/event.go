// SPDX-License-Identifier: Apache-2.0

// Package event defines the events of an account's log. An event says what changed in which object,
// and has the object's state after the change, or before its removal.
//
// Event in event.go is the main type; start reading there. types.go lists the types of events.
// data.go defines the data of each type. changes.go derives the events from the old and the new
// state of an object.
package event

import (
	"time"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/tenant"
)

// Event is one change of an object. A stored event is never changed.
type Event struct {
	// ID is a UUIDv7. The store sets ID, Sequence, At and Version.
	ID string
	// Sequence is the position in the log of the account: 1, 2, 3, … without gaps. Events become
	// visible in the order of their sequences.
	Sequence int64
	Type     Type
	At       time.Time
	Account  access.AccountID
	// Tenant is the tenant of the subject. It is empty if the subject belongs to no tenant, or to
	// several.
	Tenant  tenant.GUID
	Subject Subject
	// Version is 1 for the first event of a subject, and one more for each further event of the
	// same subject.
	Version int64
	// Data is one of the Data types of this package, or webhook.TestData. It contains no secret. In
	// an event that was read from the store, it is a json.RawMessage.
	Data any
}

// Subject is the object of an event.
type Subject struct {
	Type SubjectType
	ID   string // the id that the API shows for the object
}

// SubjectType is the kind of a subject.
type SubjectType string

// The kinds of subjects.
const (
	Tenant      SubjectType = "tenant"
	Domain      SubjectType = "domain"
	DNSRun      SubjectType = "dns_run"
	DNSJob      SubjectType = "dns_job"
	Mailbox     SubjectType = "mailbox"
	Integration SubjectType = "integration"
	Connection  SubjectType = "connection"
	Key         SubjectType = "key"
	Webhook     SubjectType = "webhook"
	Policy      SubjectType = "policy"
)
