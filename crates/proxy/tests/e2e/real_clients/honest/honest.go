// What an honest client of Go does: small pieces, many at once, slow reading. Each step is said as it passes.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
)

func check(ok bool, said ...any) {
	if !ok {
		fmt.Fprintln(os.Stderr, said...)
		os.Exit(1)
	}
}

var client *http.Client

func ask(request *http.Request) (*http.Response, string) {
	answer, err := client.Do(request)
	check(err == nil, err)
	body, err := io.ReadAll(answer.Body)
	check(err == nil, err)
	check(answer.ProtoMajor == 2, answer.Proto)
	return answer, string(body)
}

func get(url string, fields ...string) (*http.Response, string) {
	request, err := http.NewRequest("GET", url, nil)
	check(err == nil, err)
	for n := 0; n < len(fields); n += 2 {
		request.Header.Set(fields[n], fields[n+1])
	}
	return ask(request)
}

// A body of so many writes.
func pieces(count int, piece string) io.Reader {
	reader, writer := io.Pipe()
	go func() {
		for n := 0; n < count; n++ {
			if _, err := io.WriteString(writer, piece); err != nil {
				return
			}
		}
		writer.Close()
	}()
	return reader
}

func upload(url string, count int, piece string) (*http.Response, string) {
	request, err := http.NewRequest("POST", url, pieces(count, piece))
	check(err == nil, err)
	return ask(request)
}

func main() {
	base, forward := os.Args[1], os.Args[2]
	pem, err := os.ReadFile(os.Args[3])
	check(err == nil, err)
	roots := x509.NewCertPool()
	check(roots.AppendCertsFromPEM(pem), "no roots")
	trust := &tls.Config{RootCAs: roots}
	client = &http.Client{Transport: &http.Transport{TLSClientConfig: trust, ForceAttemptHTTP2: true}}

	for _, of := range []struct {
		count int
		piece string
	}{{2000, strings.Repeat("x", 50)}, {3000, "y"}} {
		answer, body := upload(base+"/up", of.count, of.piece)
		check(answer.StatusCode == 200 && body == fmt.Sprint(of.count*len(of.piece)), answer.Status, body)
	}
	fmt.Println("pieces")

	// Refused before it ends. Go stops sending then, and says what was answered.
	for n := 0; n < 5; n++ {
		answer, _ := upload(base+"/refused", 1000, "z")
		check(answer.StatusCode == 403, answer.Status)
	}
	fmt.Println("refused")

	var all sync.WaitGroup
	for n := 0; n < 300; n++ {
		all.Add(1)
		go func() {
			defer all.Done()
			answer, body := get(fmt.Sprintf("%s/small?%d", base, n%50))
			check(answer.StatusCode == 200 && body == "hello", answer.Status, body)
		}()
	}
	all.Wait()
	fmt.Println("300 at once")

	cookies := make([]string, 115)
	for n := range cookies {
		cookies[n] = fmt.Sprintf("name%d=%s", n, strings.Repeat("v", 60))
	}
	answer, body := get(base+"/cookies", "Cookie", strings.Join(cookies, "; "))
	check(answer.StatusCode == 200 && body == "115", answer.Status, body)
	fmt.Println("cookies")

	// By 4 KiB, as with bufio: a window is opened twice for each. All of it has come before.
	request, _ := http.NewRequest("GET", base+"/large", nil)
	large, err := client.Do(request)
	check(err == nil, err)
	get(base + "/large")
	total, buffer := 0, make([]byte, 4096)
	for err == nil {
		var n int
		n, err = large.Body.Read(buffer)
		total += n
	}
	check(err == io.EOF && total == 4<<20, err, total)
	fmt.Println("slow reader")

	// A map that is moved: what is no longer seen is given up.
	for n := 0; n < 4; n++ {
		for n := 0; n < 75; n++ {
			all.Add(1)
			go func() {
				defer all.Done()
				tile, giveUp := context.WithCancel(context.Background())
				request, _ := http.NewRequestWithContext(tile, "GET", base+"/large", nil)
				answer, err := client.Do(request)
				check(err == nil, err)
				check(answer.StatusCode == 200, answer.Status)
				giveUp()
				answer.Body.Close()
			}()
		}
		all.Wait()
	}
	fmt.Println("given up")

	long, err := client.Get(base + "/long")
	check(err == nil, err)
	first := make([]byte, 1)
	_, err = io.ReadFull(long.Body, first)
	check(err == nil, err)
	get(base + "/open")
	rest, err := io.ReadAll(long.Body)
	check(err == nil && len(rest) == 1000, err, len(rest))
	fmt.Println("long stream")

	// A tunnel with small writes, to somebody who sends all of it back.
	echo, err := net.Listen("tcp", "127.0.0.1:0")
	check(err == nil, err)
	go func() {
		conn, err := echo.Accept()
		check(err == nil, err)
		io.Copy(conn, conn)
		conn.Close()
	}()
	connect, err := http.NewRequest("CONNECT", forward, pieces(2000, strings.Repeat("t", 50)))
	check(err == nil, err)
	connect.Host = echo.Addr().String()
	answer, body = ask(connect)
	check(answer.StatusCode == 200 && len(body) == 100000, answer.Status, len(body))
	fmt.Println("tunnel")
}
