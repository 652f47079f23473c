// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/plugins/mail-microsoft365/call"
	"github.com/tenantry/tenantry/plugins/mail-microsoft365/exchange"
)

type ruleRow struct {
	ID         exchange.Text `json:"Guid"`
	Name       exchange.Text
	State      exchange.Text
	Mode       exchange.Text
	From       exchange.Texts
	Location   exchange.Text `json:"SenderAddressLocation"`
	Reason     exchange.Text `json:"RejectMessageReasonText"`
	Code       exchange.Text `json:"RejectMessageEnhancedStatusCode"`
	Conditions exchange.Texts
	Actions    exchange.Texts
	Exceptions exchange.Texts
	Begins     exchange.Text `json:"ActivationDate"`
	Ends       exchange.Text `json:"ExpiryDate"`
}

var ruleProperties = []string{
	"Guid", "Name", "State", "Mode", "From", "SenderAddressLocation", "RejectMessageReasonText",
	"RejectMessageEnhancedStatusCode", "Conditions", "Actions", "Exceptions", "ActivationDate", "ExpiryDate",
}

// on reports whether the rule acts, or would but for its mode.
func (r ruleRow) on() bool { return equalFold(string(r.State), exchange.Enabled) }

// turn is when the rule is removed among others.
func (r ruleRow) turn() int {
	if r.on() {
		return 0
	}
	return 1
}

// known refuses a rule of which it cannot be said whether it acts.
func (r ruleRow) known() error {
	if !r.on() && !equalFold(string(r.State), exchange.Disabled) {
		return call.Broken("exchange", "rule_state")
	}
	return nil
}

// open reports whether the rule has no senders, which means everybody's mail.
func (r ruleRow) open() bool { return len(r.From) == 0 }

// mixed reports whether somebody added to what the rule looks at or does, or
// gave it a time. Which conditions there are the platform names by types that
// it does not publish, so they are counted: ours has one, and does one thing.
func (r ruleRow) mixed() bool {
	return len(r.Conditions) > 1 || len(r.Actions) > 1 || len(r.Exceptions) > 0 || r.Begins != "" || r.Ends != ""
}

// ours reports whether the rule does what ours do.
func (r ruleRow) ours() bool {
	return equalFold(string(r.Mode), exchange.Enforce) && equalFold(string(r.Location), exchange.AnySender) &&
		string(r.Reason) == rejectText && string(r.Code) == rejectCode
}

// senders are those of the rule in lower case and in order.
func (r ruleRow) senders() []string {
	var out []string
	for _, m := range r.From {
		out = append(out, strings.ToLower(m))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// told is the rule in the words of the port. One that only reports blocks
// nobody.
func (r ruleRow) told(made, written bool) sendlimit.Rule {
	return sendlimit.Rule{
		ID: string(r.ID), Name: string(r.Name), Enabled: r.on() && equalFold(string(r.Mode), exchange.Enforce),
		Lists: r.senders(), Altered: r.on() && (r.mixed() || !r.ours()), Made: made, Written: written,
	}
}

// rule finds a rule by its name. The platform answers a name that it does not
// know with all the rules that it has, so what comes back is looked at.
func (c *client) rule(ctx context.Context, name string) (ruleRow, bool, error) {
	rows, err := c.rules(ctx, map[string]any{"Identity": name})
	if exchange.Is(err, exchange.NotFound) {
		return ruleRow{}, false, nil
	}
	for _, r := range rows {
		if equalFold(string(r.Name), name) {
			if err := r.known(); err != nil {
				return ruleRow{}, false, err
			}
			return r, true, nil
		}
	}
	return ruleRow{}, false, err
}

func (c *client) rules(ctx context.Context, parameters map[string]any) ([]ruleRow, error) {
	if parameters == nil {
		parameters = map[string]any{}
	}
	parameters["ResultSize"] = exchange.Unlimited
	return exchange.Invoke[ruleRow](ctx, c.exchange, exchange.Command{
		Effect: call.Read, Cmdlet: exchange.GetTransportRule, Select: ruleProperties, Parameters: parameters,
	})
}

const (
	ruleSize = 8 << 10 // that the platform takes, in characters
	// ruleReserve is for what the platform adds of its own.
	ruleReserve = 512
)

// senders checks a list and brings it into the form of a rule's. What a rule
// cannot hold is refused before anything is sent: the platform might read a
// blank as none, and then the rule stops all mail of the tenant.
func senders(name string, mailboxes []string) ([]string, error) {
	var out []string
	for _, m := range mailboxes {
		m = strings.ToLower(m)
		local, domain, _ := strings.Cut(m, "@")
		if local == "" || domain == "" || strings.ContainsFunc(m, notInAddresses) {
			return nil, call.Refuse(fault.ProviderError, "a sender that is to be blocked is no mailbox address")
		}
		out = append(out, m)
	}
	slices.Sort(out)
	out = slices.Compact(out)
	size := len(name) + len(rejectText) + len(rejectCode) + len(managed) + ruleReserve
	for _, m := range out {
		size += len(m) + 1
	}
	if size > ruleSize {
		return nil, call.Refuse(fault.ProviderError,
			"one rule of the mail platform has no room for these "+strconv.Itoa(len(out))+" mailboxes")
	}
	return out, nil
}

// notInAddresses finds what no plain address holds: spaces, control characters,
// and what separates or stands for several.
func notInAddresses(r rune) bool {
	return r <= ' ' || r == 0x7f || strings.ContainsRune(`,;*<>()"\`, r)
}
