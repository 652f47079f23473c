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
	ID             exchange.Text `json:"Guid"`
	Name           exchange.Text
	State          exchange.Text
	Mode           exchange.Text
	From           exchange.Texts
	Location       exchange.Text `json:"SenderAddressLocation"`
	Reason         exchange.Text `json:"RejectMessageReasonText"`
	Code           exchange.Text `json:"RejectMessageEnhancedStatusCode"`
	Conditions     exchange.Texts
	Actions        exchange.Texts
	Exceptions     exchange.Texts
	ActivationDate exchange.Text
	ExpiryDate     exchange.Text
	// Priority is the place of the rule in the order in which rules apply, 0 for the first.
	Priority exchange.Int
	// StopsProcessing is true if no later rule applies to a message to which this rule applies.
	StopsProcessing exchange.Bool `json:"StopRuleProcessing"`
}

var ruleProperties = []string{
	"Guid", "Name", "State", "Mode", "From", "SenderAddressLocation", "RejectMessageReasonText",
	"RejectMessageEnhancedStatusCode", "Conditions", "Actions", "Exceptions", "ActivationDate", "ExpiryDate",
	"Priority", "StopRuleProcessing",
}

// ruleKey identifies a rule. Rules of the same name that exist one after the other have different
// ids.
type ruleKey struct{ id, name exchange.Text }

func (r ruleRow) key() ruleKey { return ruleKey{r.ID, r.Name} }

// isEnabled reports whether the rule is enabled. In a mode other than Enforce, an enabled rule only
// reports messages.
func (r ruleRow) isEnabled() bool { return strings.EqualFold(string(r.State), exchange.Enabled) }

// removalOrder is the sort key of rules that are to be removed: enabled rules come first.
func (r ruleRow) removalOrder() int {
	if r.isEnabled() {
		return 0
	}
	return 1
}

// checkState returns Broken if the state of the rule is neither Enabled nor Disabled.
func (r ruleRow) checkState() error {
	if !r.isEnabled() && !strings.EqualFold(string(r.State), exchange.Disabled) {
		return call.Broken("exchange", "rule_state")
	}
	return nil
}

// hasNoSenders reports whether the rule has no condition on senders. Such a rule can block the mail
// of all senders.
func (r ruleRow) hasNoSenders() bool { return len(r.From) == 0 }

// hasForeignParts reports whether a person added a condition, an action, an exception or a date to
// the rule. The platform does not publish the type names of conditions and actions, so
// hasForeignParts only counts them. A managed rule has one condition and one action.
func (r ruleRow) hasForeignParts() bool {
	return len(r.Conditions) > 1 || len(r.Actions) > 1 || len(r.Exceptions) > 0 || r.ActivationDate != "" || r.ExpiryDate != ""
}

// hasManagedSettings reports whether the rule has the mode, the sender location and the rejection
// that tenantry sets.
func (r ruleRow) hasManagedSettings() bool {
	return strings.EqualFold(string(r.Mode), exchange.Enforce) && strings.EqualFold(string(r.Location), exchange.AnySender) &&
		string(r.Reason) == rejectText && string(r.Code) == rejectCode
}

func (r ruleRow) endsProcessing() bool { return r.isEnabled() && r.StopsProcessing.Value }

// isPreceded reports whether a rule that tenantry does not manage applies before this rule and may
// keep it from acting. rows are all rules of the tenant.
func (r ruleRow) isPreceded(rows []ruleRow) bool {
	return slices.ContainsFunc(rows, func(other ruleRow) bool {
		return !sendlimit.IsRuleName(string(other.Name)) && other.endsProcessing() && other.Priority < r.Priority
	})
}

// senders returns the senders of the rule in lower case, sorted and without duplicates.
func (r ruleRow) senders() []string {
	var values []string
	for _, m := range r.From {
		values = append(values, strings.ToLower(m))
	}
	slices.Sort(values)
	return slices.Compact(values)
}

// toRule returns the rule as a sendlimit.Rule. created and written report what the current call has
// done to the rule. A rule that only reports messages, but lets them pass, counts as not enabled.
func (r ruleRow) toRule(created, written bool) sendlimit.Rule {
	return sendlimit.Rule{
		ID: string(r.ID), Name: string(r.Name), Enabled: r.isEnabled() && strings.EqualFold(string(r.Mode), exchange.Enforce),
		Lists: r.senders(), Altered: r.isEnabled() && (r.hasForeignParts() || !r.hasManagedSettings()), Created: created, Written: written,
	}
}

// rule returns the rule with this name. It compares the names of the returned rules, because the
// platform returns all rules if the name is unknown.
func (c *tenantClient) rule(ctx context.Context, name string) (ruleRow, bool, error) {
	rows, err := c.rules(ctx, map[string]any{"Identity": name})
	if exchange.Is(err, exchange.NotFound) {
		return ruleRow{}, false, nil
	}
	for _, r := range rows {
		if strings.EqualFold(string(r.Name), name) {
			if err := r.checkState(); err != nil {
				return ruleRow{}, false, err
			}
			return r, true, nil
		}
	}
	return ruleRow{}, false, err
}

func (c *tenantClient) rules(ctx context.Context, parameters map[string]any) ([]ruleRow, error) {
	if parameters == nil {
		parameters = map[string]any{}
	}
	parameters["ResultSize"] = exchange.Unlimited
	return exchange.Invoke[ruleRow](ctx, c.exchange, exchange.Command{
		Effect: call.Read, Cmdlet: exchange.GetTransportRule, Select: ruleProperties, Parameters: parameters,
	})
}

const (
	maxRuleSize = 8 << 10 // the platform's limit in characters
	// ruleReserve is the part of maxRuleSize that is kept free for text that the platform adds.
	ruleReserve = 512
)

// ruleSenders returns the mailboxes as a rule lists them: in lower case, sorted, without
// duplicates. It refuses a list if the rule could then exceed maxRuleSize, or if the list contains
// a text that is not a plain address. The platform could read a blank address as "no senders", and
// the rule would then block all mail of the tenant.
func ruleSenders(name string, mailboxes []string) ([]string, error) {
	var values []string
	for _, address := range mailboxes {
		address = strings.ToLower(address)
		local, domain, _ := strings.Cut(address, "@")
		if local == "" || domain == "" || strings.ContainsFunc(address, isForbiddenInAddress) {
			return nil, call.Refuse(fault.ProviderError, "a sender to block is not a mailbox address")
		}
		values = append(values, address)
	}
	slices.Sort(values)
	values = slices.Compact(values)
	size := len(name) + len(rejectText) + len(rejectCode) + len(commentPrefix) + ruleReserve
	for _, address := range values {
		size += len(address) + 1
	}
	if size > maxRuleSize {
		return nil, call.Refuse(fault.ProviderError,
			"one rule of the mail platform has no room for these "+strconv.Itoa(len(values))+" mailboxes")
	}
	return values, nil
}

// isForbiddenInAddress reports whether ruleSenders refuses an address with this character: a space,
// an ASCII control character, or a character that can separate, quote or match addresses.
func isForbiddenInAddress(r rune) bool {
	return r <= ' ' || r == 0x7f || strings.ContainsRune(`,;*<>()"\`, r)
}
