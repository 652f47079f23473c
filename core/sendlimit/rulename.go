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
	maxRuleName = 64 // limit of the mail platform, in characters
	hashDigits  = 12
)

// RuleName returns the name of a scope's rule at the mail platform. A domain that is too long for
// the name is truncated and gets a hash as its suffix.
func RuleName(scope string) string {
	if scope == TenantWide {
		return tenantRule
	}
	scope = strings.ToLower(scope)
	if name := rulePrefix + scope; len(name) <= maxRuleName {
		return name
	}
	digest := sha256.Sum256([]byte(scope))
	kept := maxRuleName - len(rulePrefix) - 1 - hashDigits
	return rulePrefix + scope[:kept] + "-" + hex.EncodeToString(digest[:])[:hashDigits]
}

// RuledScope returns the scope of a rule name for which IsRuleName is true. For a truncated domain
// it returns the rest of the name, which RuleName maps to the same rule.
func RuledScope(name string) string {
	name = strings.ToLower(name)
	if name == tenantRule {
		return TenantWide
	}
	return strings.TrimPrefix(name, rulePrefix)
}

// IsRuleName reports whether RuleName can return this name. The prefix alone is not enough, because
// foreign rules may use it too.
func IsRuleName(name string) bool {
	name = strings.ToLower(name)
	scope, prefixed := strings.CutPrefix(name, rulePrefix)
	if !prefixed || len(name) > maxRuleName || strings.Trim(scope, domainCharacters) != "" {
		return false
	}
	return name == tenantRule || strings.Contains(strings.Trim(scope, ".-"), ".") || hasHashSuffix(name)
}

const domainCharacters = "abcdefghijklmnopqrstuvwxyz0123456789.-"

// hasHashSuffix reports whether a name ends in the hash of a truncated domain.
func hasHashSuffix(name string) bool {
	at := len(name) - hashDigits
	return len(name) == maxRuleName && name[at-1] == '-' && strings.Trim(name[at:], "0123456789abcdef") == ""
}
