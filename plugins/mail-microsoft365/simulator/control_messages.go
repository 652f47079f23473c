// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/tenantry/tenantry/plugins/sdk/simulate"
)

// mostMessages that one call sends.
const mostMessages = 10_000

// newMessages is the body of POST /_control/messages.
type newMessages struct {
	Mailbox string    `json:"mailbox"`
	Count   int       `json:"count"`
	At      time.Time `json:"at"`
	// Recipients of each message, one to three in turn without it. Bounced
	// messages are refused by their recipients' servers.
	Recipients int  `json:"recipients"`
	Bounced    bool `json:"bounced"`
}

// controlMessages stands in for SMTP: a mailbox sends messages, which meet the
// rules and are seen by message trace.
func (s *simulator) controlMessages(w http.ResponseWriter, r *http.Request) {
	var in newMessages
	if err := simulate.Read(r, &in); err != nil {
		simulate.Refuse(w, http.StatusBadRequest, err.Error())
		return
	}
	if in.Count < 1 || in.Count > mostMessages || in.Recipients < 0 || in.Recipients > 500 {
		simulate.Refuse(w, http.StatusBadRequest, "count is from 1 to 10000, recipients up to 500")
		return
	}
	sent := false
	for _, f := range s.store.all() {
		holds := false
		if f.View(func(t *tenant) { holds = t.sends(in.Mailbox) }); !holds {
			continue
		}
		sent = true
		err := f.Do(func(t *tenant) {
			s.send(t, batch{Sender: strings.ToLower(in.Mailbox), Count: in.Count, At: in.At, Recipients: in.Recipients,
				Bounced: in.Bounced}, s.kit.Now())
		})
		if err != nil {
			simulate.Refuse(w, http.StatusInternalServerError, err.Error())
			return
		}
	}
	if !sent {
		simulate.Refuse(w, http.StatusNotFound, "there is no such mailbox")
		return
	}
	simulate.Reply(w, http.StatusOK, struct{}{})
}

// sends reports whether the tenant holds a mailbox with this address.
func (t *tenant) sends(address string) bool {
	return slices.ContainsFunc(t.Exchange.Mailboxes, func(m mailbox) bool { return strings.EqualFold(m.Primary, address) })
}
