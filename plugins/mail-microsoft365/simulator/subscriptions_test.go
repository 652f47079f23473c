// SPDX-License-Identifier: Apache-2.0

package simulator_test

import (
	"net/http"
	"strings"
	"testing"
)

// seats are the numbers of licences by product.
func (t *tenant) seats() map[string]any {
	t.t.Helper()
	out := map[string]any{}
	for _, row := range t.graph("GET", "/directory/subscriptions", nil).rows() {
		s := row.(m)
		out[s["skuPartNumber"].(string)] = s["totalLicenses"]
	}
	return out
}

func TestSubscriptions(t *testing.T) {
	tn := start(t).connected()
	a := tn.graph("GET", "/directory/subscriptions", nil)
	if a.status != http.StatusOK || len(a.rows()) != 2 {
		t.Fatalf("%d %s", a.status, a.raw)
	}
	free, bought := a.rows()[0].(m), a.rows()[1].(m)
	if free["skuPartNumber"] != "POWER_BI_STANDARD" || free["totalLicenses"] != 1000000.0 || free["isTrial"] != false {
		t.Errorf("free: %v", free)
	}
	plans, _ := bought["serviceStatus"].([]any)
	if bought["totalLicenses"] != 1.0 || bought["isTrial"] != false || bought["status"] != "Enabled" ||
		len(plans) == 0 || plans[0].(m)["servicePlanName"] != "EXCHANGE_S_STANDARD" {
		t.Errorf("bought: %v", bought)
	}
	// The licence is the one that the administrator was given.
	users := tn.graph("GET", "/users?$select=assignedLicenses&$filter=startswith(userPrincipalName,'admin@')", nil)
	if users.at("value", 0, "assignedLicenses", 0, "skuId") != bought["skuId"] {
		t.Errorf("another product than %s", users.raw)
	}
	tn.behave(m{"licenses": m{"paid": 25, "trial": 5}})
	if got := tn.seats(); len(got) != 3 || got["O365_BUSINESS_ESSENTIALS"] != 25.0 || got["ENTERPRISEPACK"] != 5.0 {
		t.Errorf("%v", got)
	}
	tn.behave(m{"licenses": m{"paid": 0}}) // and the trial as before
	if got := tn.seats(); len(got) != 2 || got["ENTERPRISEPACK"] != 5.0 {
		t.Errorf("%v", got)
	}
	if a := tn.do("POST", tn.ready.URL+"/_control/tenants/"+tn.id+"/behaviour", nil, `{"licenses": {"paid": -1}}`); a.status != http.StatusBadRequest {
		t.Errorf("%d %s", a.status, a.raw)
	}
}

func TestSubscriptionPages(t *testing.T) {
	tn := start(t).connected()
	tn.behave(m{"page_size": 1, "licenses": m{"paid": 25, "trial": 5}})
	var seats []any
	for next := "/directory/subscriptions"; next != ""; {
		a := tn.graph("GET", next, nil)
		if len(a.rows()) != 1 || len(seats) > 3 {
			t.Fatalf("%s", a.raw)
		}
		seats = append(seats, a.at("value", 0, "totalLicenses"))
		link, _ := a.at("@odata.nextLink").(string)
		next = strings.TrimPrefix(link, tn.ready.Settings["graph_url"]+"/v1.0")
	}
	if len(seats) != 3 || seats[1] != 25.0 || seats[2] != 5.0 {
		t.Errorf("%v", seats)
	}
	tn.behave(m{"page_size": 1000})
	if a := tn.graph("GET", "/directory/subscriptions?$select=status", nil); a.at("value", 0, "status") != "Enabled" || a.at("value", 0, "id") != nil {
		t.Errorf("$select: %s", a.raw)
	}
	golden(t, "graph-unsupported-query", tn.graph("GET", "/directory/subscriptions?$top=1", nil))
}

func TestSubscriptionTrouble(t *testing.T) {
	tn := start(t).connected()
	tn.fault(m{"operation": "directory.list-subscriptions", "kind": "status", "status": 503, "times": 1})
	golden(t, "graph-unavailable", tn.graph("GET", "/directory/subscriptions", nil))
	tn.control("POST", "/tenants/"+tn.id+"/revoke", m{"what": "app_role", "role": "Organization.Read.All"})
	golden(t, "graph-denied", tn.graph("GET", "/directory/subscriptions", nil))
}
