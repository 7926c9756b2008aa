// What an honest client of Java does: small pieces, many at once, slow reading. Each step is said as it passes.
import java.io.*;
import java.net.*;
import java.net.http.*;
import java.net.http.HttpRequest.*;
import java.net.http.HttpResponse.*;
import java.nio.file.*;
import java.security.*;
import java.security.cert.*;
import java.util.*;
import java.util.concurrent.*;
import java.util.stream.*;
import javax.net.ssl.*;

public class Honest {
    static void check(boolean ok, Object... said) {
        if (!ok) {
            System.err.println(Arrays.toString(said));
            System.exit(1);
        }
    }

    static HttpClient client(SSLContext trust) {
        return HttpClient.newBuilder().version(HttpClient.Version.HTTP_2).sslContext(trust).build();
    }

    static HttpRequest.Builder to(String url) {
        return HttpRequest.newBuilder(URI.create(url));
    }

    static BodyPublisher pieces(int count, String piece) {
        return BodyPublishers.ofByteArrays(Collections.nCopies(count, piece.getBytes()));
    }

    public static void main(String[] words) throws Exception {
        String base = words[0];
        KeyStore roots = KeyStore.getInstance(KeyStore.getDefaultType());
        roots.load(null);
        try (InputStream pem = Files.newInputStream(Path.of(words[2]))) {
            roots.setCertificateEntry("ca", CertificateFactory.getInstance("X.509").generateCertificate(pem));
        }
        TrustManagerFactory managers = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
        managers.init(roots);
        SSLContext trust = SSLContext.getInstance("TLS");
        trust.init(null, managers.getTrustManagers(), null);
        HttpClient client = client(trust);

        int[] counts = {2000, 3000};
        String[] texts = {"x".repeat(50), "y"};
        for (int n = 0; n < 2; n++) {
            HttpResponse<String> answer = client.send(to(base + "/up").POST(pieces(counts[n], texts[n])).build(), BodyHandlers.ofString());
            int bytes = counts[n] * texts[n].length();
            check(answer.version() == HttpClient.Version.HTTP_2, answer.version());
            check(answer.statusCode() == 200 && answer.body().equals("" + bytes), answer.statusCode(), answer.body());
        }
        System.out.println("pieces");

        // More than the server allows at a time, Java's client does not queue: so it is asked for as many as there may be.
        for (int round = 0; round < 3; round++) {
            List<CompletableFuture<HttpResponse<String>>> all = IntStream.range(0, 100)
                .mapToObj(n -> client.sendAsync(to(base + "/small?" + n % 50).build(), BodyHandlers.ofString()))
                .collect(Collectors.toList());
            for (CompletableFuture<HttpResponse<String>> one : all) {
                check(one.get().statusCode() == 200 && one.get().body().equals("hello"), one.get());
            }
        }
        System.out.println("300 at once");

        String cookies = IntStream.range(0, 115).mapToObj(n -> "name" + n + "=" + "v".repeat(60)).collect(Collectors.joining("; "));
        HttpResponse<String> counted = client.send(to(base + "/cookies").header("Cookie", cookies).build(), BodyHandlers.ofString());
        check(counted.statusCode() == 200 && counted.body().equals("115"), counted.statusCode(), counted.body());
        System.out.println("cookies");

        try (InputStream large = client.send(to(base + "/large").build(), BodyHandlers.ofInputStream()).body()) {
            byte[] room = new byte[1000];
            int total = 0;
            for (int n = large.read(room); n >= 0; n = large.read(room)) {
                total += n;
            }
            check(total == 4 << 20, total);
        }
        System.out.println("slow reader");

        try (InputStream slow = client.send(to(base + "/long").build(), BodyHandlers.ofInputStream()).body()) {
            check(slow.read() == '0');
            client.send(to(base + "/open").build(), BodyHandlers.ofString());
            check(slow.readAllBytes().length == 1000);
        }
        System.out.println("long stream");
        System.exit(0);
    }
}
