// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"time"

	"github.com/uptrace/bun"

	"github.com/tenantry/tenantry/core/ident"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/core/tenant"
)

type enforcementRow struct {
	bun.BaseModel `bun:"table:enforcement_events,alias:ev"`

	AccountID      string `bun:",pk"`
	ID             string `bun:",pk"`
	TenantGUID     string `bun:"tenant_guid"`
	MailboxAddress string
	Action         string
	SentCount      int
	LimitValue     int
	CreatedAt      time.Time
}

func newEnforcementRow(owner string, e sendlimit.Event) enforcementRow {
	return enforcementRow{AccountID: owner, ID: ident.Lookup(e.ID), TenantGUID: ident.Lookup(string(e.Tenant)), MailboxAddress: text(e.Address),
		Action: string(e.Action), SentCount: e.Sent, LimitValue: e.Limit, CreatedAt: micro(e.At)}
}

func (r enforcementRow) event() sendlimit.Event {
	return sendlimit.Event{ID: r.ID, Tenant: tenant.GUID(r.TenantGUID), Address: r.MailboxAddress, Action: sendlimit.Action(r.Action),
		Sent: r.SentCount, Limit: r.LimitValue, At: r.CreatedAt.UTC()}
}

// The spans of time in which events are counted, in seconds. An hour is small
// enough to be counted through, and of days there are few.
const (
	hour = 60 * 60
	day  = 24 * hour
)

// countRow is how many events a filter lets through in a span of time.
type countRow struct {
	bun.BaseModel `bun:"table:enforcement_counts,alias:ec"`

	AccountID  string `bun:",pk"`
	TenantGUID string `bun:"tenant_guid,pk"`
	Action     string `bun:",pk"`
	Span       int    `bun:",pk"`
	Starts     int64  `bun:",pk"`
	Events     int
}

// countedIn are the counts that an event is part of. Its id says
// when, as pages are cut by ids.
func countedIn(e enforcementRow) (counts []countRow) {
	at := ident.Time(e.ID).Unix()
	for _, guid := range []string{ident.Zero, e.TenantGUID} {
		for _, span := range []int64{day, hour} {
			counts = append(counts, countRow{AccountID: e.AccountID, TenantGUID: guid, Action: e.Action,
				Span: int(span), Starts: at - at%span, Events: 1})
		}
	}
	return counts
}

// firstID is the smallest id of an event at or after a moment.
func firstID(unix int64) string { return ident.New(time.Unix(unix, 0), [ident.Entropy]byte{}) }
