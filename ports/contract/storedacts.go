// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"cmp"
	"maps"
	"testing"
	"time"

	"github.com/tenantry/tenantry/core/audit"
	"github.com/tenantry/tenantry/ports"
)

// acts are the stored acts, newest first.
func acts(t testing.TB, s Stores, q ports.AuditQuery) []audit.Event {
	t.Helper()
	q.Limit = cmp.Or(q.Limit, 100)
	found, err := s.AuditEvents(t.Context(), q)
	must(t, "list acts", err)
	return found
}

var auditChecks = []storeCheck{
	{"an act is kept with who, when and what", func(t testing.TB, s Stores) {
		before := time.Now().Truncate(time.Microsecond)
		details := map[string]string{"name": hostile, "empty": ""}
		must(t, "record", s.RecordAct(t.Context(), audit.AddPlugin, details))
		all := acts(t, s, ports.AuditQuery{})
		if len(all) != 1 {
			t.Fatalf("got %+v", all)
		}
		e := all[0]
		if e.ID == "" || e.Operator != Operator || e.Action != audit.AddPlugin || e.Account != "" || !maps.Equal(e.Details, details) ||
			e.At.Before(before) || e.At.After(time.Now()) || e.At.Location() != time.UTC {
			t.Fatalf("got %+v", e)
		}
	}},
}
