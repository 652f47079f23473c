// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"encoding/json"
	"net/http"
	"strings"
)

// exception is the error of a cmdlet: a .NET exception, usually in a 400 answer.
type exception struct {
	id         string // ErrorId such as Ex6F9304, or ""
	dotnetType string // full name of the .NET type
	text       string
}

// Namespaces of exception types.
const (
	taskTypes       = "Microsoft.Exchange.Configuration.Tasks."
	invocationTypes = "Microsoft.Exchange.AdminApi.CommandInvocation."
)

// The exceptions that are not scripted.
var (
	errAmbiguous        = exception{"", invocationTypes + "AmbiguousParameterSetException", "Parameter set cannot be resolved using the specified named parameters. Invalid cmdlet parameters specified. %s"}
	errMissing          = exception{"", invocationTypes + "AmbiguousParameterSetException", "Parameter set cannot be resolved using the specified named parameters. Missing mandatory parameters: %s"}
	errTransform        = exception{"", invocationTypes + "ParameterTransformationException", "Cannot process argument transformation on parameter %s"}
	errNoObject         = exception{"Ex6F9304", taskTypes + "ManagementObjectNotFoundException", "The operation couldn't be performed because object '%s' couldn't be found on 'SIM0001.PROD.OUTLOOK.COM'."}
	errAddressTaken     = exception{"ExB10BE9", "Microsoft.Exchange.Management.Tasks.WLCDManagedMemberExistsException", "The proxy address \"SMTP:%s\" is already being used by the proxy addresses or LegacyExchangeDN of another object. Please choose another proxy address."}
	errNameTaken        = exception{"Ex9CD8F3", "Microsoft.Exchange.Data.Directory.ADObjectAlreadyExistsException", "The name \"%s\" is already being used. Please try another name."}
	errObjectExists     = exception{"Ex9CD8F3", "Microsoft.Exchange.Data.Directory.ADObjectAlreadyExistsException", "An object with the same name already exists. %s"}
	errInvalid          = exception{"Ex0FA2C5", "Microsoft.Exchange.Data.DataValidationException", "Property validation failed. %s"}
	errNotMailDomain    = exception{"ExD3B1A2", "Microsoft.Exchange.Management.RecipientTasks.NotAcceptedDomainException", "You can't use the domain because it isn't an accepted domain for your organization. %s"}
	errDehydrated       = exception{"ExA6E1F0", "Microsoft.Exchange.Management.Tasks.InvalidOperationInDehydratedContextException", "The command you tried to run isn't currently allowed in your organization. To run this command, you first need to run the command: Enable-OrganizationCustomization."}
	errHydrated         = exception{"Ex7C61D4", taskTypes + "TaskInvalidOperationException", "This operation is not required. Organization is already enabled for customization."}
	errSMTPRefused      = exception{"Ex51E0B7", taskTypes + "TaskInvalidOperationException", "SmtpClientAuthenticationDisabled can't be changed: authenticated SMTP isn't available for this organization."}
	errDKIMExists       = exception{"Ex2A4F19", "Microsoft.Exchange.Data.Directory.ADObjectAlreadyExistsException", "The DKIM signing configuration for the domain %s already exists."}
	errNoCNAME          = exception{"Ex6A3EAB", "Microsoft.Exchange.Management.Tasks.ValidationException", "CNAME record does not exist for this config. Please publish the following two CNAME records first. Domain Name : %s If you have already published the CNAME records, sync will take a few minutes to as many as 4 days based on your specific DNS. Return and retry this step later."}
	errPaging           = exception{"", "Microsoft.Exchange.Admin.OData.Core.ODataServiceException", "Expired or Invalid pagination request. Default Expiry time is 00:30:00"}
	errNoTenant         = exception{"", "Microsoft.Exchange.Admin.OData.Core.ODataServiceException", "The tenant '%s' couldn't be found."}
	errBadCommand       = exception{"", "Microsoft.Exchange.Admin.OData.Core.ODataServiceException", "The command in the request body couldn't be read. CmdletName and Parameters are required."}
	errRuleExists       = exception{"Ex9CD8F3", "Microsoft.Exchange.Data.Directory.ADObjectAlreadyExistsException", "The rule name \"%s\" already exists."}
	errRuleCount        = exception{"Ex3E7B11", ruleTaskTypes + "RulesValidationException", "You've reached the maximum number of rules for your organization."}
	errRuleSize         = exception{"Ex3E7B12", ruleTaskTypes + "RulesValidationException", "The rule is too large. A rule has at most 8 KB."}
	errTraceQuota       = exception{"", "Microsoft.Exchange.Management.Tasks.MessageTraceException", "Your recent queries have surpassed the permitted limit, please try again later."}
	errBackendTransient = exception{"", "Microsoft.Exchange.Data.Storage.TransientException", "A server side error has occurred because of which the operation could not be completed. Please try again after some time."}
)

// with returns a copy of the exception with "%s" in its text replaced by subject.
func (e exception) with(subject string) *exception {
	e.text = strings.TrimSpace(strings.ReplaceAll(e.text, "%s", subject))
	return &e
}

// envelope returns the body of the answer. Code and message are the same for all exceptions. The
// details and the inner exception differ.
func (e *exception) envelope() object {
	return object{
		"error": object{
			"code": "BadRequest", "message": "Invalid Operation",
			"details": []object{{"code": "Client", "target": "", "message": e.id + "|" + e.dotnetType + "|" + e.text}},
			"innererror": object{
				"message": "Invalid Operation", "stacktrace": "",
				"type":              "Microsoft.Exchange.Admin.OData.Core.ODataServiceException",
				"internalexception": object{"message": e.text, "type": e.dotnetType, "stacktrace": ""},
			},
		},
		"adminapi.warnings@odata.type": "#Collection(String)",
		"@adminapi.warnings":           []string{},
	}
}

func writeExchange(w http.ResponseWriter, status int, body object) {
	w.Header().Set("Content-Type", "application/json;odata.metadata=minimal;odata.streaming=true;IEEE754Compatible=false;charset=utf-8")
	w.Header().Set("request-id", newGUID())
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

// writeStatus writes a status without a body.
func writeStatus(w http.ResponseWriter, status int) {
	if status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Bearer client_id="`+exchangeAppID+`"`)
	}
	w.WriteHeader(status)
}

// nulBodyLength is the length in bytes of a body of NUL bytes.
const nulBodyLength = 4096

// writeForbidden answers that a directory role is missing or that a cmdlet is not allowed. The body
// consists of NUL bytes, or is empty.
func writeForbidden(w http.ResponseWriter, nulBody bool) {
	if nulBody {
		w.Header().Set("Content-Type", "application/octet-stream")
		w.WriteHeader(http.StatusForbidden)
		_, _ = w.Write(make([]byte, nulBodyLength))
		return
	}
	writeStatus(w, http.StatusForbidden)
}
