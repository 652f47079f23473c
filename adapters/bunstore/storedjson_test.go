// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/event"
	"github.com/tenantry/tenantry/core/webhook"
	"github.com/tenantry/tenantry/ports"
)

// escapeText contains texts that look like the JSON escape of NUL, after one, two and three
// backslashes.
const escapeText = hostileText + ` \u0000 \\u0000 \\\u0000 \ufffd \`

// TestJSONColumnsReturnTheExactText stores a text in JSON columns that can contain texts of
// providers or callers. Of these valid UTF-8 texts, only NUL is replaced, as in the text columns.
func TestJSONColumnsReturnTheExactText(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		owner := newAccount(t, s, "a")
		stored, want := escapeText+"\x00 \\\x00", escapeText+"\uFFFD \\\uFFFD"
		t.Run("event", func(t *testing.T) {
			e := domainEvent("", "d1", event.DomainAdded)
			e.Data = map[string]string{"name": stored}
			emitEvents(t, s, owner, e)
			page, err := s.LoggedEvents(t.Context(), owner, ports.LogQuery{After: ports.FromOldest, Limit: 1})
			must(t, "read", err)
			var data map[string]string
			must(t, "decode", json.Unmarshal(page.Events[0].Data.(json.RawMessage), &data))
			requireText(t, data["name"], want)
		})
		t.Run("act of a request", func(t *testing.T) {
			act := newAct(owner, "write")
			act.Entry.Actor.Name = stored
			attachTenant(t, s, owner, 1)
			must(t, "change", reserveDomainNamed(ports.WithAct(t.Context(), act), s, owner, "contoso.test"))
			_, err := s.RecordLostWrites(t.Context(), -time.Hour, 10)
			must(t, "record", err)
			entries := exportEntries(t, s, owner)
			requireText(t, entries[len(entries)-1].Actor.Name, want)
		})
		t.Run("operator action in the audit log", func(t *testing.T) {
			must(t, "record", s.RecordAction(t.Context(), "test", map[string]string{"name": stored, stored: "key"}))
			events, err := s.AuditEvents(t.Context(), ports.AuditQuery{Limit: 1})
			must(t, "read", err)
			if diff := cmp.Diff(map[string]string{"name": want, want: "key"}, events[0].Details); diff != "" {
				t.Error(diff)
			}
		})
		t.Run("records of a domain", func(t *testing.T) {
			d := addDomain(t, s, owner, guid(1), "example.test")
			d.Verification = []dns.Record{{Type: dns.TXT, Name: d.Name, Content: stored}}
			must(t, "save", s.SaveDomain(t.Context(), owner, d, nil))
			read, err := s.DomainByID(t.Context(), owner, d.ID)
			must(t, "read", err)
			requireText(t, read.Verification[0].Content, want)
		})
		t.Run("attempts of a delivery", func(t *testing.T) {
			hook := addWebhook(t, s, owner, nil)
			emitEvents(t, s, owner, domainEvent(guid(1), "1", event.DomainAdded))
			fanOut(t, s, owner)
			d := claimDeliveries(t, s, hook, now)[0]
			tried := d.AfterTry(webhook.Response{Error: stored}, now, 0)
			_, err := s.SaveDeliveries(t.Context(), []ports.TriedDelivery{{Delivery: tried, Account: owner}}, now)
			must(t, "save", err)
			requireText(t, deliveriesOf(t, s, hook, "")[0].Attempts[0].Error, want)
		})
	})
}

func requireText(t testing.TB, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
