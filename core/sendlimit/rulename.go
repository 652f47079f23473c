// SPDX-License-Identifier: Apache-2.0

package sendlimit

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

const (
	rulePrefix  = "tenantry-block-"
	tenantRule  = rulePrefix + "tenantwide"
	maxRuleName = 64 // that the mail platform takes
	hashDigits  = 12
)

// RuleName is the name of a scope's rule at the mail platform, by which it is
// found. A domain that is too long for it is cut, and told apart by its hash.
func RuleName(scope string) string {
	if scope == TenantWide {
		return tenantRule
	}
	scope = strings.ToLower(scope)
	if name := rulePrefix + scope; len(name) <= maxRuleName {
		return name
	}
	sum := sha256.Sum256([]byte(scope))
	kept := maxRuleName - len(rulePrefix) - 1 - hashDigits
	return rulePrefix + scope[:kept] + "-" + hex.EncodeToString(sum[:])[:hashDigits]
}

// RuledScope is a scope whose rule has this name, which is one of ours. Where a
// domain was cut for it, what is left names the same rule.
func RuledScope(name string) string {
	name = strings.ToLower(name)
	if name == tenantRule {
		return TenantWide
	}
	return strings.TrimPrefix(name, rulePrefix)
}

// IsRuleName reports whether a rule of this name is one of ours: the prefix
// alone, which anybody may use, does not make it so.
func IsRuleName(name string) bool {
	name = strings.ToLower(name)
	scope, prefixed := strings.CutPrefix(name, rulePrefix)
	if !prefixed || len(name) > maxRuleName || strings.Trim(scope, domainCharacters) != "" {
		return false
	}
	return name == tenantRule || strings.Contains(strings.Trim(scope, ".-"), ".") || hashed(name)
}

const domainCharacters = "abcdefghijklmnopqrstuvwxyz0123456789.-"

// hashed reports whether a name ends as those do that were cut.
func hashed(name string) bool {
	at := len(name) - hashDigits
	return len(name) == maxRuleName && name[at-1] == '-' && strings.Trim(name[at:], "0123456789abcdef") == ""
}
