// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// cmdlet is one command of Exchange's PowerShell module.
type cmdlet struct {
	name       string
	parameters map[string]paramType
	mandatory  []string
	// lookup queries the DNS before the tenant is locked. Its result is passed to handler.
	lookup  func(*invocation) map[string]bool
	handler func(*invocation, *tenant, map[string]bool) outcome
}

// cmdlets maps lower-case names to the cmdlets that the simulator implements. All other cmdlets are
// refused with status 403.
var cmdlets = cmdletsByName(
	cmdlet{name: "Get-OrganizationConfig", handler: getOrganization},
	cmdlet{name: "Enable-OrganizationCustomization", parameters: map[string]paramType{"Confirm": switchParam}, handler: enableCustomization},
	cmdlet{name: "Get-AcceptedDomain", parameters: map[string]paramType{"Identity": stringParam, "ResultSize": unlimitedParam}, handler: getAcceptedDomain},
	cmdlet{name: "Get-TransportConfig", handler: getTransportConfig},
	cmdlet{name: "Set-TransportConfig", handler: setTransportConfig,
		parameters: map[string]paramType{"SmtpClientAuthenticationDisabled": boolParam, "Confirm": switchParam}},
	cmdlet{name: "Get-Mailbox", handler: getMailbox, parameters: map[string]paramType{"Identity": stringParam, "ResultSize": unlimitedParam,
		"RecipientTypeDetails": enumParam(mailboxKinds...)}},
	cmdlet{name: "New-Mailbox", handler: newMailbox, mandatory: []string{"Name"}, parameters: map[string]paramType{"Shared": switchParam,
		"Name": stringParam, "DisplayName": stringParam, "Alias": stringParam, "PrimarySmtpAddress": addressParam, "Confirm": switchParam}},
	cmdlet{name: "Set-Mailbox", handler: setMailbox, mandatory: []string{"Identity"}, parameters: map[string]paramType{
		"Identity": stringParam, "DisplayName": stringParam, "MessageCopyForSentAsEnabled": boolParam, "Confirm": switchParam}},
	cmdlet{name: "Remove-Mailbox", handler: removeMailbox, mandatory: []string{"Identity"},
		parameters: map[string]paramType{"Identity": stringParam, "Confirm": switchParam}},
	cmdlet{name: "Get-CASMailbox", handler: getCASMailbox, parameters: map[string]paramType{"Identity": stringParam, "ResultSize": unlimitedParam}},
	cmdlet{name: "Set-CASMailbox", handler: setCASMailbox, mandatory: []string{"Identity"}, parameters: map[string]paramType{
		"Identity": stringParam, "SmtpClientAuthenticationDisabled": nullableBoolParam, "Confirm": switchParam}},
	cmdlet{name: "Get-DkimSigningConfig", handler: getDKIMConfig, parameters: map[string]paramType{"Identity": stringParam}},
	cmdlet{name: "New-DkimSigningConfig", handler: newDKIMConfig, lookup: lookupSelectorCNAMEs, mandatory: []string{"DomainName", "Enabled"},
		parameters: map[string]paramType{"DomainName": stringParam, "KeySize": uint16Param, "Enabled": boolParam, "Confirm": switchParam}},
	cmdlet{name: "Set-DkimSigningConfig", handler: setDKIMConfig, lookup: lookupSelectorCNAMEs, mandatory: []string{"Identity"},
		parameters: map[string]paramType{"Identity": stringParam, "Enabled": boolParam, "Confirm": switchParam}},
	cmdlet{name: "Get-TransportRule", handler: getRules, parameters: map[string]paramType{"Identity": stringParam, "ResultSize": unlimitedParam}},
	cmdlet{name: "New-TransportRule", handler: newRule, mandatory: []string{"Name"}, parameters: ruleParameters(map[string]paramType{"Enabled": boolParam})},
	cmdlet{name: "Set-TransportRule", handler: setRule, mandatory: []string{"Identity"}, parameters: ruleParameters(map[string]paramType{"Identity": stringParam})},
	cmdlet{name: "Enable-TransportRule", handler: setRuleEnabled(true), mandatory: []string{"Identity"}, parameters: map[string]paramType{"Identity": stringParam, "Confirm": switchParam}},
	cmdlet{name: "Disable-TransportRule", handler: setRuleEnabled(false), mandatory: []string{"Identity"}, parameters: map[string]paramType{"Identity": stringParam, "Confirm": switchParam}},
	cmdlet{name: "Remove-TransportRule", handler: removeRule, mandatory: []string{"Identity"}, parameters: map[string]paramType{"Identity": stringParam, "Confirm": switchParam}},
	cmdlet{name: "Get-MessageTraceV2", handler: getTrace, parameters: map[string]paramType{"StartDate": dateParam, "EndDate": dateParam, "SenderAddress": stringListParam,
		"RecipientAddress": stringListParam, "MessageTraceId": stringParam, "ResultSize": traceSizeParam, "StartingRecipientAddress": stringParam}},
)

func cmdletsByName(list ...cmdlet) map[string]cmdlet {
	byName := map[string]cmdlet{}
	for _, c := range list {
		byName[strings.ToLower(c.name)] = c
	}
	return byName
}

type paramType struct {
	name    string
	accepts func(any) bool
}

// The parameter types, with the names that Exchange uses in its errors.
var (
	stringParam  = paramType{name: "string", accepts: isString}
	addressParam = paramType{name: "SmtpAddress", accepts: func(v any) bool {
		s, ok := v.(string)
		return ok && addressPattern.MatchString(s)
	}}
	boolParam         = paramType{name: "Boolean", accepts: isBool}
	switchParam       = paramType{name: "SwitchParameter", accepts: isBool}
	nullableBoolParam = paramType{name: "Nullable", accepts: func(v any) bool { return v == nil || isBool(v) }}
	uint16Param       = paramType{name: "UInt16", accepts: func(v any) bool {
		n, ok := v.(float64)
		return ok && n == float64(int(n)) && n > 0 && n < 65536
	}}
	int32Param = paramType{name: "Int32", accepts: func(v any) bool {
		n, ok := v.(float64)
		return ok && n == float64(int(n)) && n >= 0
	}}
	traceSizeParam = paramType{name: "Int32", accepts: func(v any) bool {
		n, ok := v.(float64)
		return ok && n == float64(int(n)) && n >= 1 && n <= maxTraceResults
	}}
	dateParam = paramType{name: "DateTime", accepts: isDate}
	// stringListParam is one text or a list of texts. null means an empty list.
	stringListParam = paramType{name: "MultiValuedProperty", accepts: func(v any) bool {
		list, _ := v.([]any)
		return v == nil || isString(v) || list != nil && !slices.ContainsFunc(list, func(element any) bool { return !isString(element) })
	}}
	unlimitedParam = paramType{name: "Unlimited", accepts: func(v any) bool {
		n, ok := v.(float64)
		return v == "Unlimited" || ok && n == float64(int(n)) && n > 0
	}}
	addressPattern = regexp.MustCompile(`^[A-Za-z0-9.!#$%&'*+/=?^_{|}~-]+@(?i)([a-z0-9]([a-z0-9-]*[a-z0-9])?\.)+[a-z][a-z0-9-]*[a-z0-9]$`)
)

func isString(v any) bool { _, ok := v.(string); return ok }

func isBool(v any) bool { _, ok := v.(bool); return ok }

// enumParam returns the type of a parameter that is one member of an enumeration, or an array of
// members. As in Exchange, a prefix of a member is accepted.
func enumParam(values ...string) paramType {
	return paramType{name: "Enum", accepts: func(v any) bool {
		list, ok := v.([]any)
		if !ok {
			list = []any{v}
		}
		return !slices.ContainsFunc(list, func(element any) bool {
			s, ok := element.(string)
			return !ok || s == "" || !slices.ContainsFunc(values, func(member string) bool {
				return strings.HasPrefix(strings.ToLower(member), strings.ToLower(s))
			})
		})
	}}
}

// params are the parameters of one call, keyed by lower-case name.
type params map[string]any

func (p params) has(name string) bool { _, ok := p[strings.ToLower(name)]; return ok }

// text returns a text parameter, or "" if the parameter is missing or is not a text.
func (p params) text(name string) string { s, _ := p[strings.ToLower(name)].(string); return s }

func (p params) isTrue(name string) bool { b, _ := p[strings.ToLower(name)].(bool); return b }

// textList returns a parameter that is one text or a list of texts. It returns nil if the parameter
// is missing, empty or null.
func (p params) textList(name string) []string {
	if s := p.text(name); s != "" {
		return []string{s}
	}
	return stringList(p[strings.ToLower(name)])
}

// readParams reads and checks the parameters of a call. An unknown name or a wrong type is reported
// before a missing parameter.
func readParams(c cmdlet, raw json.RawMessage) (params, *exception) {
	var values map[string]any
	if json.Unmarshal(raw, &values) != nil || values == nil {
		return nil, errBadCommand.with("")
	}
	parsed := params{}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		parameterType, ok := c.parameter(name)
		if !ok {
			return nil, errAmbiguous.with(name)
		}
		if !parameterType.accepts(values[name]) {
			return nil, errTransform.with("'" + name + "'. Cannot convert the value to type \"" + parameterType.name + "\".")
		}
		parsed[strings.ToLower(name)] = values[name]
	}
	for _, name := range c.mandatory {
		if !parsed.has(name) {
			return nil, errMissing.with(name)
		}
	}
	return parsed, nil
}

// parameter returns the type of a parameter, ignoring the case of its name.
func (c cmdlet) parameter(name string) (paramType, bool) {
	for known, parameterType := range c.parameters {
		if strings.EqualFold(known, name) {
			return parameterType, true
		}
	}
	return paramType{}, false
}
