// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"strings"
	"time"
)

// graphError is a refusal of Microsoft Graph.
type graphError struct {
	status  int
	code    string
	message string
	details []map[string]string
}

// The refusals. "%s" is what the request named.
var (
	errNoToken  = graphError{status: 401, code: "InvalidAuthenticationToken", message: "Access token is empty."}
	errBadToken = graphError{status: 401, code: "InvalidAuthenticationToken", message: "IDX10511: Signature validation failed."}
	errAudience = graphError{status: 401, code: "InvalidAuthenticationToken", message: "Access token validation failure. Invalid audience."}
	errExpired  = graphError{status: 401, code: "InvalidAuthenticationToken", message: "Lifetime validation failed, the token is expired."}
	// errIdentity is what a token gets whose service principal is gone.
	errIdentity = graphError{status: 401, code: "Authorization_IdentityNotFound", message: "The identity of the calling application could not be established."}
	errDenied   = graphError{status: 403, code: "Authorization_RequestDenied", message: "Insufficient privileges to complete the operation."}
	errNotFound = graphError{status: 404, code: "Request_ResourceNotFound", message: "Resource '%s' does not exist or one of its queried reference-property objects are not present."}
	errSegment  = graphError{status: 400, code: "BadRequest", message: "Resource not found for the segment '%s'."}
	errBody     = graphError{status: 400, code: "BadRequest", message: "Unable to read JSON request payload. Please ensure Content-Type header is set and payload is of valid JSON format."}
	errProperty = graphError{status: 400, code: "Request_BadRequest", message: "Invalid property '%s'."}
	errValues   = graphError{status: 400, code: "Request_BadRequest", message: "One or more properties contains invalid values."}
	errConflict = graphError{status: 400, code: "Request_BadRequest", message: "A conflicting object with one or more of the specified property values is present in the directory."}
	errSameKey  = graphError{status: 409, code: "Request_MultipleObjectsWithSameKeyValue", message: "A conflicting object with one or more of the specified property values is present in the directory.",
		details: []map[string]string{{"code": "ConflictingObjects", "message": "The request conflicts with an object that is present in the directory."}}}
	errFilter     = graphError{status: 400, code: "Request_UnsupportedQuery", message: "Unsupported or invalid query filter clause specified for property '%s'."}
	errPageSize   = graphError{status: 400, code: "Request_BadRequest", message: "Invalid page size specified: '%s'. Must be between 1 and 999 inclusive."}
	errUnverified = graphError{status: 400, code: "Request_BadRequest", message: "The domain '%s' is not verified. Only verified domains can be updated."}
	errVerified   = graphError{status: 400, code: "Request_BadRequest", message: "Domain is already verified."}
	errNoRecord   = graphError{status: 400, code: "Request_BadRequest", message: "Domain verification failed with the following error: 'The required DNS record of domain %s was not found. Records may take up to 72 hours to be visible.'"}
	errElsewhere  = graphError{status: 400, code: "Request_BadRequest", message: "Domain verification failed with the following error: 'The domain %s is already verified in use by another organization.'"}
	errReferenced = graphError{status: 400, code: "Request_BadRequest", message: "The domain '%s' cannot be deleted: objects still refer to it. List them with domainNameReferences, or use forceDelete."}
	errBuiltIn    = graphError{status: 400, code: "Request_BadRequest", message: "The domain '%s' cannot be deleted: it is the initial or the default domain."}
	errEarly      = graphError{status: 400, code: "Request_BadRequest", message: "The domain '%s' has no service configuration records yet."}
	errPassword   = graphError{status: 400, code: "Request_BadRequest", message: "The specified password does not comply with password complexity requirements. Please provide a different password.",
		details: []map[string]string{{"code": "InvalidValue", "target": "PasswordProfile", "message": "The specified password does not comply with password complexity requirements. Please provide a different password."}}}
	errTooMany     = graphError{status: 429, code: "TooManyRequests", message: "Please retry again later."}
	errInternal    = graphError{status: 500, code: "InternalServerError", message: "An internal server error occurred. %s"}
	errGateway     = graphError{status: 502, code: "BadGateway", message: "Bad gateway."}
	errUnavailable = graphError{status: 503, code: "serviceUnavailable", message: "The service is temporarily unavailable. Please retry."}
	errTimeout     = graphError{status: 504, code: "UnknownError", message: ""}
)

// of fills in what the request named.
func (e graphError) of(what string) *graphError {
	e.message = strings.TrimSpace(strings.ReplaceAll(e.message, "%s", what))
	return &e
}

// body is the refusal as Graph writes it.
func (e *graphError) body(now time.Time, request, client string) map[string]any {
	inner := map[string]any{"date": now.Format("2006-01-02T15:04:05"), "request-id": request,
		"client-request-id": client}
	if e.status == 429 {
		inner["code"], inner["status"], inner["message"] = "429", "429", "Please retry after"
	}
	body := map[string]any{"code": e.code, "message": e.message, "innerError": inner}
	if e.details != nil {
		body["details"] = e.details
	}
	return map[string]any{"error": body}
}
