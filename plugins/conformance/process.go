// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/tenantry/tenantry/core/panics"
	"github.com/tenantry/tenantry/plugins/sdk"
	"github.com/tenantry/tenantry/plugins/sdk/simulate"
)

// errNoSimulator is the error of startSimulator for a plugin whose command `simulate` exits with
// exitNoSimulator.
var errNoSimulator = errors.New("the plugin has no simulator")

// exitNoSimulator is the exit code of the command `simulate` if a plugin has no simulator.
const exitNoSimulator = 2

// The environment variables that a plugin and a simulator inherit from this process. A plugin also
// gets wire.SearchPath and the variables of the protocol. The service passes more variables, for
// the export of spans, but not SSL_CERT_DIR.
var (
	pluginVariables    = []string{"SSL_CERT_FILE", "SSL_CERT_DIR", "TZ"}
	simulatorVariables = []string{"PATH", "HOME", "TMPDIR", "TZ"}
)

// inheritedVariables returns the variables with these names that are set in the environment.
func inheritedVariables(names []string) (variables []string) {
	for _, name := range names {
		if value, ok := os.LookupEnv(name); ok {
			variables = append(variables, name+"="+value)
		}
	}
	return variables
}

// startSimulator starts `BINARY simulate` and a proxy between the simulator and the plugin. If the
// simulator uses HTTP, the settings in Simulator.Ready of the result contain the URL of the proxy.
// startSimulator returns errNoSimulator if the plugin has no simulator. It fails the test if the
// simulator does not start. The simulator and the proxy end with the test.
func startSimulator(t T, binary, zonesURL string, e *exchange) (*Simulator, error) {
	t.Helper()
	s := &Simulator{exchange: e}
	var target *url.URL // the URL of the simulator, set before the first request
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Host = r.In.Host
		},
		// Without reuse of connections, the transport never repeats a request by itself.
		Transport: &http.Transport{DisableKeepAlives: true, DisableCompression: true},
		// If the simulator closes the connection, the proxy does too: the plugin must see that the
		// provider has closed it.
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
		ErrorLog:     discardLog,
	}
	s.serve(t, proxy)
	ready, err := startSimulatorProcess(t, binary, zonesURL, s.URL)
	if err != nil {
		return nil, err
	}
	simulatorURL := "http://" + ready.Address
	if ready.Address == "" {
		simulatorURL = ready.URL
	}
	if target, err = url.Parse(simulatorURL); err != nil || target.Host == "" {
		t.Fatalf("the ready line of the simulator has no valid address: %+v", ready)
	}
	if simulatorURL == ready.URL { // the simulator did not use the URL of the proxy
		for name, value := range ready.Settings {
			if rest, found := strings.CutPrefix(value, ready.URL); found {
				ready.Settings[name] = s.URL + rest
			}
		}
	}
	s.Ready = ready
	s.faults.authHosts = sdk.SplitAuthHosts(ready.Settings["auth_hosts"])
	status, _ := s.callControl(t, http.MethodDelete, "/faults", nil)
	s.plansFaults = status == http.StatusOK
	e.addSecrets(ready.Secrets)
	return s, nil
}

// startSimulatorProcess starts the simulator's process and returns the line that it prints when it
// is ready.
func startSimulatorProcess(t T, binary, zonesURL, proxy string) (ready simulate.Ready, err error) {
	t.Helper()
	// The test's context ends before the cleanups run. The process must not end with this context,
	// because the cleanup stops it.
	command := exec.CommandContext(context.WithoutCancel(t.Context()), binary, "simulate", "--listen", "127.0.0.1:0", "--data", t.TempDir(), "--world", zonesURL)
	command.Env = append(inheritedVariables(simulatorVariables), simulate.URLVariable+"="+proxy)
	stdin, err := command.StdinPipe()
	if err != nil {
		t.Fatalf("simulator: %v", err)
	}
	stdout, stdoutWriter := io.Pipe()
	stderrTail := &lastBytes{}
	command.Stdout, command.Stderr = stdoutWriter, stderrTail
	command.WaitDelay = cleanupTimeout
	if err := command.Start(); err != nil {
		t.Fatalf("start the simulator: %v", err)
	}
	var exitErr error // set before ended is closed
	ended := make(chan struct{})
	panics.Go(func() {
		exitErr = command.Wait()
		_ = stdoutWriter.Close()
		close(ended)
	}, func(e *panics.Error) { exitErr = e; close(ended) })
	t.Cleanup(func() {
		_ = stdin.Close()
		timer := time.NewTimer(cleanupTimeout)
		defer timer.Stop()
		select {
		case <-ended:
			return
		case <-timer.C:
		}
		_ = command.Process.Kill()
		<-ended
	})
	line := make(chan []byte, 1)
	panics.Go(func() {
		first, _ := bufio.NewReader(stdout).ReadBytes('\n')
		line <- first
		_, _ = io.Copy(io.Discard, stdout) // a simulator that prints more lines must not block
	}, func(*panics.Error) { line <- nil })
	select {
	case first := <-line:
		if len(first) > 0 {
			if err := json.Unmarshal(first, &ready); err != nil {
				t.Fatalf("the first line that the simulator prints is not the JSON object of simulate.Ready: %v", err)
			}
			return ready, nil
		}
	case <-t.Context().Done():
		t.Fatalf("the simulator printed no line before the check ended")
	}
	<-ended
	if command.ProcessState != nil && command.ProcessState.ExitCode() == exitNoSimulator {
		return ready, errNoSimulator
	}
	t.Fatalf("the simulator ended with %v: %s", exitErr, shorten(stderrTail.String()))
	return ready, nil
}

func (s *Simulator) callControl(t T, method, path string, in any) (status int, answer []byte) {
	t.Helper()
	var body io.Reader = http.NoBody
	if in != nil {
		raw, err := json.Marshal(in)
		if err != nil {
			t.Fatal(err)
		}
		body = bytes.NewReader(raw)
	}
	status, answer, err := send(t, method, s.URL+"/_control"+path, "application/json", body)
	if err != nil {
		t.Fatalf("control call of the simulator: %v", err)
	}
	return status, answer
}

// lastBytes stores the last maxShownBytes bytes that were written to it.
type lastBytes struct {
	mu   sync.Mutex
	tail []byte
}

// Write implements io.Writer.
func (l *lastBytes) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tail = append(l.tail, p...)
	l.tail = l.tail[max(0, len(l.tail)-maxShownBytes):]
	return len(p), nil
}

func (l *lastBytes) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.tail)
}
