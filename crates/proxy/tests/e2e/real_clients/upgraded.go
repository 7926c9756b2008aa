// Go's client, which reads bodies all the time while the proxy goes and comes: 4 connections with 8 streams each. Each body that came whole
// is a line ".", each one that began and broke off a line with the reason. It ends when its input does.
package main

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

const connections, streams = 4, 8

// A body is taken slowly enough for a connection to end while it is on its way.
const pieceBytes, pause = 16 << 10, time.Millisecond

func main() {
	base := os.Args[1]
	pem, err := os.ReadFile(os.Args[2])
	roots := x509.NewCertPool()
	if err != nil || !roots.AppendCertsFromPEM(pem) {
		fmt.Println("no roots", err)
		os.Exit(1)
	}
	var asked, stops atomic.Int64
	var all sync.WaitGroup
	for range connections {
		trust := &tls.Config{RootCAs: roots}
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: trust, ForceAttemptHTTP2: true}}
		for range streams {
			all.Add(1)
			go func() {
				defer all.Done()
				for stops.Load() == 0 {
					n := asked.Add(1)
					bytes := 600_000 + n%16*10_000
					if said := one(client, fmt.Sprintf("%s/%d", base, bytes), int(bytes)); said != "" {
						fmt.Println(said)
					}
				}
			}()
		}
	}
	io.Copy(io.Discard, os.Stdin)
	stops.Store(1)
	all.Wait()
	fmt.Println("done")
}

func one(client *http.Client, url string, bytes int) string {
	// Go asks by itself again for what was not begun; what counts is the last connection.
	var hasConnection atomic.Bool
	trace := &httptrace.ClientTrace{
		GetConn: func(string) { hasConnection.Store(false) },
		GotConn: func(httptrace.GotConnInfo) { hasConnection.Store(true) },
	}
	request, _ := http.NewRequest("GET", url, nil)
	answer, err := client.Do(request.WithContext(httptrace.WithClientTrace(request.Context(), trace)))
	if err != nil && !hasConnection.Load() {
		time.Sleep(10 * time.Millisecond)
		return ""
	}
	if err != nil {
		return fmt.Sprint(url, ", no head: ", err)
	}
	defer answer.Body.Close()
	piece, came := make([]byte, pieceBytes), 0
	for {
		n, err := answer.Body.Read(piece)
		for at, found := range piece[:n] {
			if found != pattern(came+at) {
				return fmt.Sprint(url, ", another byte at ", came+at)
			}
		}
		came += n
		if err == io.EOF {
			break
		}
		if err != nil {
			return fmt.Sprint(url, ", ", came, " bytes of ", bytes, ", ", err, ", ", answer.Header["Cache-Status"])
		}
		time.Sleep(pause)
	}
	if came != bytes || answer.StatusCode != 200 || answer.ProtoMajor != 2 {
		return fmt.Sprint(url, ", ", answer.Status, " by ", answer.Proto, ", ", came, " bytes of ", bytes)
	}
	return "."
}

// A byte of the body, as the tests have it.
func pattern(at int) byte {
	word := uint64(at/8) * 0x9e3779b97f4a7c15
	return byte(word >> (at % 8 * 8))
}
