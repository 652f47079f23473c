// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"net/http"
)

// demoLimit is how much a mailbox may send a day in the demo.
const demoLimit = 20

// limits has a mailbox send more than it may, and shows what comes of that.
func (w *walk) limits(ctx context.Context) error {
	w.title("Limit how many messages each mailbox may send in a day")
	set, err := w.must(ctx, http.MethodPost, w.tenant("/mailbox-limits"), object{"daily_send_limit": demoLimit, "domain_scope": demoDomain})
	if err != nil {
		return err
	}
	rule, _ := set["provisioning"].(map[string]any)
	w.note("Microsoft 365 has a new mail flow rule, switched off until a mailbox exceeds its limit: %v", rule["rule_name"])
	w.title("A mailbox exceeds its limit and is blocked")
	if err := w.control(ctx, fmt.Sprintf("ada@example-one.test sends %d messages", demoLimit+1), "/messages",
		object{"mailbox": "ada@" + demoDomain, "count": demoLimit + 1}); err != nil {
		return err
	}
	if err := w.enforced(ctx, "blocked"); err != nil {
		return err
	}
	w.title("The next day it is unblocked")
	if err := w.control(ctx, "the clock of the sandbox moves on by 24 hours", "/clock", object{"advance": "24h"}); err != nil {
		return err
	}
	return w.enforced(ctx, "unblocked")
}

// enforced has limits enforced, and shows the event that says so and whom the
// platform blocks.
func (w *walk) enforced(ctx context.Context, action string) error {
	if err := w.control(ctx, "the service counts the messages and updates the rule", "/enforcement/run", nil); err != nil {
		return err
	}
	listed, err := w.must(ctx, http.MethodGet, "/v1/enforcement/events?action="+action, nil)
	if err != nil {
		return err
	}
	events := listed.objects("events")
	if len(events) != 1 {
		return fmt.Errorf("there are %d events that say %s", len(events), action)
	}
	w.note("%s: %s", events[0].text("mailbox_address"), events[0].text("message"))
	held, status, err := send(ctx, http.MethodGet, w.ready.ControlURL+"/tenants/"+w.ready.Tenants[0].TenantID, "", nil)
	if err != nil {
		return err
	}
	if status != http.StatusOK {
		return fmt.Errorf("the sandbox answered %d: %v", status, held)
	}
	for _, rule := range held.objects("rules") {
		w.note("at Microsoft 365: %s, enabled %v, blocks %v", rule.text("name"), rule["enabled"], rule["blocks"])
		if rule["enabled"] != (action == "blocked") {
			return fmt.Errorf("the rule is %v", rule)
		}
	}
	return nil
}
