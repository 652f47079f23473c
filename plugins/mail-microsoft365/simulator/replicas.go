// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"errors"
	"reflect"
	"slices"
	"time"
)

// replicas configures the two replicas that answer the reads of a host, Graph or Exchange. One
// replica is up to date. The other replica lags: it shows the state of LagMS milliseconds ago. A
// write works on the newest state.
type replicas struct {
	LagMS int `json:"lag_ms"`
	// Answers determines which reads the lagging replica answers: "lists", "objects" (all reads
	// that name an object), "all", or "alternate" for every second read. If it is empty, the
	// lagging replica answers no read.
	Answers string `json:"answers"`
}

func (r replicas) validate() error {
	if r.LagMS < 0 {
		return errors.New("lag_ms must not be negative")
	}
	if !slices.Contains([]string{"", "lists", "objects", "all", "alternate"}, r.Answers) {
		return errors.New("answers must be lists, objects, all or alternate")
	}
	return nil
}

func (r replicas) lag() time.Duration { return time.Duration(r.LagMS) * time.Millisecond }

// laggingAnswers reports whether the lagging replica answers the nth read.
func (r replicas) laggingAnswers(isList bool, n int) bool {
	switch r.Answers {
	case "lists":
		return isList
	case "objects":
		return !isList
	case "alternate":
		return n%2 == 0
	default:
		return r.Answers == "all"
	}
}

// snapshot is the state of a tenant that replicas can show. It was the state from the time At until
// the time of the next snapshot.
type snapshot struct {
	At time.Time `json:"at"`

	// The objects of Graph. Exchange also uses Domains and Users.
	Domains     []mailDomain     `json:"domains"`
	Users       []user           `json:"users"`
	Assignments []roleAssignment `json:"assignments"`

	// The objects of Exchange.
	Dehydrated       bool            `json:"dehydrated"`
	HydrationLag     lag             `json:"hydration"`
	SMTPAuthDisabled bool            `json:"smtp_auth_disabled"`
	Mailboxes        []mailbox       `json:"mailboxes"`
	DKIM             []dkimConfig    `json:"signing"`
	Rules            []transportRule `json:"rules"`
}

// newSnapshot returns a copy of the current state of the tenant.
func newSnapshot(t *tenant, now time.Time) snapshot {
	return snapshot{
		At: now, Domains: slices.Clone(t.Domains), Users: slices.Clone(t.Users), Assignments: slices.Clone(t.Assignments),
		Dehydrated: t.Exchange.Dehydrated, HydrationLag: t.Exchange.HydrationLag, SMTPAuthDisabled: t.Exchange.SMTPAuthDisabled,
		Mailboxes: slices.Clone(t.Exchange.Mailboxes), DKIM: slices.Clone(t.Exchange.DKIM), Rules: slices.Clone(t.Exchange.Rules),
	}
}

// view returns a copy of the tenant with the state of the snapshot.
func (s snapshot) view(t *tenant) *tenant {
	view := *t
	view.Domains, view.Users, view.Assignments = s.Domains, s.Users, s.Assignments
	organization := &view.Exchange
	organization.Dehydrated, organization.HydrationLag = s.Dehydrated, s.HydrationLag
	organization.SMTPAuthDisabled, organization.Mailboxes = s.SMTPAuthDisabled, s.Mailboxes
	organization.DKIM, organization.Rules = s.DKIM, s.Rules
	return &view
}

// history holds the snapshots of a tenant that a lagging replica may still show, oldest first, and
// counts the reads at each host.
type history struct {
	Snapshots     []snapshot `json:"snapshots,omitempty"`
	GraphReads    int        `json:"graph_reads,omitempty"`
	ExchangeReads int        `json:"exchange_reads,omitempty"`
}

// recordSnapshot adds the state of the tenant to its history if the state has changed, and deletes
// snapshots that are too old to be shown. If no replica lags, it clears the history.
func (t *tenant) recordSnapshot(now time.Time) {
	longestLag := max(t.Behaviour.GraphReplicas.lag(), t.Behaviour.ExchangeReplicas.lag())
	if longestLag == 0 {
		t.History = history{}
		return
	}
	current := newSnapshot(t, now)
	snapshots := t.History.Snapshots
	if len(snapshots) > 0 {
		last := snapshots[len(snapshots)-1]
		last.At = now
		if reflect.DeepEqual(last, current) {
			return
		}
	}
	snapshots = append(snapshots, current)
	for len(snapshots) > 1 && !snapshots[1].At.After(now.Add(-longestLag)) {
		snapshots = snapshots[1:]
	}
	t.History.Snapshots = snapshots
}

// replicaOf returns the tenant as the replica shows it that answers the next read at a host. reads
// is the counter of the reads at the host.
func (t *tenant) replicaOf(r replicas, reads *int, isList bool, now time.Time) *tenant {
	*reads++
	if r.LagMS == 0 || len(t.History.Snapshots) == 0 || !r.laggingAnswers(isList, *reads) {
		return t
	}
	snapshot := t.History.Snapshots[0]
	for _, s := range t.History.Snapshots {
		if !s.At.After(now.Add(-r.lag())) {
			snapshot = s
		}
	}
	return snapshot.view(t)
}
