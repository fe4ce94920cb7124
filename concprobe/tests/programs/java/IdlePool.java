import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/** A pool of eight workers gets a short task every 20 ms: it mostly waits for work. */
public class IdlePool {
    static volatile long result;

    public static void main(String[] arguments) throws Exception {
        ExecutorService pool = Executors.newFixedThreadPool(8);
        long end = System.nanoTime() + Long.parseLong(arguments[0]) * 1_000_000_000L;
        System.out.println("ready");
        while (System.nanoTime() < end) {
            pool.submit(() -> {
                long sum = 0;
                for (int step = 0; step < 1000; step++) {
                    sum += step ^ sum;
                }
                result = sum;
            });
            Thread.sleep(20);
        }
        pool.shutdown();
    }
}
