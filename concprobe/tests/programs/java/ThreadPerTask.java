/** A new thread for each of many short tasks. */
public class ThreadPerTask {
    static volatile long result;

    public static void main(String[] arguments) throws Exception {
        for (int task = Integer.parseInt(arguments[0]); task > 0; task--) {
            Thread thread = new Thread(() -> result++);
            thread.start();
            thread.join();
        }
    }
}
