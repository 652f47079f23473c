// SPDX-License-Identifier: Apache-2.0

package sendlimit

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
)

// Rule is the mail platform's transport rule of a scope. The zero Rule means a missing rule.
type Rule struct {
	ID   string
	Name string
	// Enabled is false for a rule that is switched off, which blocks no address.
	Enabled bool
	// Lists holds the addresses in the rule, in lower case and sorted.
	Lists []string
	// Altered is true when someone changed parts of an enabled rule other than its addresses, such
	// as its conditions, actions, schedule or place among the rules. The next write restores these
	// parts.
	Altered bool
	// Created and Written say whether the call that returned the rule created or changed it.
	Created, Written bool
}

// Blocks returns the addresses that the rule blocks, nil when it is switched off.
func (r Rule) Blocks() []string {
	if !r.Enabled {
		return nil
	}
	return r.Lists
}

func (r Rule) blocksAddress(address string) bool {
	return slices.ContainsFunc(r.Blocks(), func(blocked string) bool { return strings.EqualFold(blocked, address) })
}

// Matches reports whether no write is needed: the rule is not altered and blocks exactly the
// addresses of list. list must be sorted. A missing rule matches an empty list.
func (r Rule) Matches(list []string) bool {
	return !r.Altered && r.Enabled == (len(list) > 0) && slices.Equal(r.Blocks(), list)
}

// RuleOf returns the rule of a scope, or the zero Rule if rules has none.
func RuleOf(scope string, rules []Rule) Rule {
	for _, r := range rules {
		if strings.EqualFold(r.Name, RuleName(scope)) {
			return r
		}
	}
	return Rule{}
}

// RulePrefix is the beginning of the name of each rule that RuleName returns.
const RulePrefix = "tenantry-block-"

const (
	tenantRuleName    = RulePrefix + "tenantwide"
	maxRuleNameLength = 64 // limit of the mail platform, in characters
	hashDigits        = 12
)

// RuleName returns the name of a scope's rule at the mail platform. A domain that is too long for
// the name is truncated and gets a hash as its suffix.
func RuleName(scope string) string {
	if scope == TenantWide {
		return tenantRuleName
	}
	scope = strings.ToLower(scope)
	if name := RulePrefix + scope; len(name) <= maxRuleNameLength {
		return name
	}
	digest := sha256.Sum256([]byte(scope))
	kept := maxRuleNameLength - len(RulePrefix) - 1 - hashDigits
	return RulePrefix + scope[:kept] + "-" + hex.EncodeToString(digest[:])[:hashDigits]
}

// ScopeOfRule returns the scope of a rule name for which IsRuleName is true. If RuleName truncated
// the domain, ScopeOfRule returns the truncated domain with the hash. RuleName returns the same
// name for both.
func ScopeOfRule(name string) string {
	name = strings.ToLower(name)
	if name == tenantRuleName {
		return TenantWide
	}
	return strings.TrimPrefix(name, RulePrefix)
}

// IsRuleName reports whether a name has the form of the names that RuleName returns, in any letter
// case. The prefix alone is not enough, because a rule that tenantry did not create may have the
// same prefix.
func IsRuleName(name string) bool {
	name = strings.ToLower(name)
	scope, prefixed := strings.CutPrefix(name, RulePrefix)
	if !prefixed || len(name) > maxRuleNameLength || strings.Trim(scope, domainCharacters) != "" {
		return false
	}
	return name == tenantRuleName || strings.Contains(strings.Trim(scope, ".-"), ".") || hasHashSuffix(name)
}

const domainCharacters = "abcdefghijklmnopqrstuvwxyz0123456789.-"

// hasHashSuffix reports whether a name ends in the hash of a truncated domain.
func hasHashSuffix(name string) bool {
	hashStart := len(name) - hashDigits
	return len(name) == maxRuleNameLength && name[hashStart-1] == '-' && strings.Trim(name[hashStart:], "0123456789abcdef") == ""
}
