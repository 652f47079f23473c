// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"time"

	"github.com/tenantry/tenantry/core/tenant"
)

type headroom struct {
	ExternalRecipientLimit int        `json:"external_recipient_limit" doc:"How many recipients outside the tenant all of its mail together may have in 24 hours, by the platform's published formula: 500 times the bought licences for e-mail to the power of 0.7, plus 9500; 5000 where none are bought. The platform may apply another limit."`
	SendsToday             int        `json:"sends_today" doc:"What the tenant's mailboxes sent on its present day, as counted: 0 until its first count, while the mailboxes still show that of the day before. Messages are counted here and not their recipients, of shared mailboxes alone, from midnight on; the platform counts external recipients of the last 24 hours."`
	SendsTodayAt           *time.Time `json:"sends_today_at" doc:"When the oldest of these counts was taken, null before the day's first."`
	Remaining              int        `json:"remaining" doc:"What is left of the limit, 0 beyond it."`
	UtilizationPct         float64    `json:"utilization_pct" doc:"How much of the limit is used, in percent with one decimal."`
	EmailLicenses          int        `json:"email_licenses" doc:"Bought licences for e-mail, given to somebody or not. Those on trial do not count, and shared mailboxes have none."`
	EstimatedAt            time.Time  `json:"estimated_at" doc:"When the licences were read: the last sync that could."`
}

func headroomOf(h *tenant.Headroom) perhaps[headroom] {
	if h == nil {
		return perhaps[headroom]{}
	}
	return perhaps[headroom]{&headroom{
		ExternalRecipientLimit: h.Limit, SendsToday: h.Sent, SendsTodayAt: moment(h.SentAt), Remaining: h.Remaining, UtilizationPct: h.Percent,
		EmailLicenses: h.Licenses, EstimatedAt: h.At.UTC(),
	}}
}
